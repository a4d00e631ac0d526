"""The version of the program. Here and not only in the package's metadata, since looking there costs 3 MB of memory."""

VERSION = "0.1.0"
