"""Wire formats and cryptography as pure values and functions. Nothing here does I/O or reads a clock."""
