"""The link to microcontrollers: a C library for them, the gateway's side of it in Python, and firmware update."""
