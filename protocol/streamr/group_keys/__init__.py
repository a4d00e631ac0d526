"""The exchange of the keys of an encrypted stream: publisher and subscriber as state machines, without I/O.

    subscriber                                                  publisher
    request  (28) ── on SYSTEM/keyexchange/<publisher> ───────►  may this address read the stream?
    response (29) ◄─ on SYSTEM/keyexchange/<subscriber> ───────  yes: the keys, each under the request's RSA key
    error    (31) ◄─ on SYSTEM/keyexchange/<subscriber> ───────  no: why not
    announce (30) ◄─ on SYSTEM/keyexchange/<subscriber> ───────  without a request, when the publisher rekeys

Every message is signed; unsigned ones are ignored. Version 32 names its keys; version 31 has no names, but the time
from which each key is valid. A publisher responds in the version of the request.

A key changes in two ways. *Rotation* delivers the next key inside a message, encrypted with the current one: all
present readers can continue. *Rekeying* announces a new key to each subscriber that is still allowed: all others can no
longer read.

Memory is bounded on both sides by the constants named MAX. Time is an argument, `now_ms` (UTC), and becomes the
timestamp of the messages sent; the ids of requests are arguments, too.
"""
