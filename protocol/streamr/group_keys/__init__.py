"""How a subscriber comes by the keys of an encrypted stream, without I/O: both sides as state machines.

    subscriber                                                  publisher
    request  (28) ── on SYSTEM/keyexchange/<publisher> ───────►  may this address read the stream?
    response (29) ◄─ on SYSTEM/keyexchange/<subscriber> ───────  yes: the keys, each under the request's RSA key
    error    (31) ◄─ on SYSTEM/keyexchange/<subscriber> ───────  no: why not
    announce (30) ◄─ on SYSTEM/keyexchange/<subscriber> ───────  unasked, when the publisher rekeys

Every message is signed, and one that is not is ignored. Version 32 names its keys; version 31 has no names
and tells from when on each key holds. A publisher answers in the version it was asked in.

A key changes in two ways. *Rotation* hands the next key over inside a message, encrypted with the current
one: whoever reads now reads on. *Rekeying* announces a new key to each subscriber that is still allowed:
whoever is not reads no more.

Memory is bounded on both sides, whatever arrives: see the constants named MAX. Time is an argument,
`now_ms`, UTC, and becomes the timestamp of what is sent; names of requests are arguments too.
"""
