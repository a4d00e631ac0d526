"""Measurements as ratios: ours against a limit or a peer, taken in turns in one run. `make bench` prints them."""
