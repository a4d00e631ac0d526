"""Golden data that real implementations produced; tests/vectors/streamr holds it."""

import functools
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from protocol.streamr.group_keys.rsa import RsaKeyPair

VECTORS = Path(__file__).parents[1] / "vectors" / "streamr"


def load_vectors(name: str) -> list[dict[str, Any]]:
    """Every entry of one file."""
    entries: list[dict[str, Any]] = json.loads((VECTORS / f"{name}.json").read_bytes())
    return entries


@functools.cache
def load_rsa_key_pair(private_key_pem: str) -> RsaKeyPair:
    """OpenSSL takes a third of a second to load a key, so it is loaded once."""
    key = load_pem_private_key(private_key_pem.encode(), password=None)
    assert isinstance(key, RSAPrivateKey)
    return RsaKeyPair(key)
