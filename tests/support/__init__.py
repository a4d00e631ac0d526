"""Helpers that several tests share: fakes, small processes, samples and readers of golden data."""
