"""Attacks from outside: hostile brokers, nodes, clients and devices against the real programs."""
