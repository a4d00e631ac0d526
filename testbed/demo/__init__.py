"""The demo: the whole system on one machine in about two minutes."""
