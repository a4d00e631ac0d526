"""Turns readings into signed StreamMessages: stream, ioMessage, hash chain, encryption, signature."""
