"""The device log: the archives of a device as one append-only log, so that a missing one is noticed.

merkle      the hash tree of a log (RFC 9162): roots and proofs
frontier    the part of the tree that is needed to append: a few hashes, however long the log is
entry       what an archive states about its place in the log
log         the end of a log, to which a device appends
checkpoint  the device's signed statement how long its log is, and how far its journal is archived
answer      the collector's signed answer to a checkpoint

The leaves are the SHA-256 digests of the archive files as they are shipped. `docs/wire-formats.md` specifies every
byte.
"""
