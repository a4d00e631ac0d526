"""The whole system on one machine, and the faults that test it. The only package that may import every other."""
