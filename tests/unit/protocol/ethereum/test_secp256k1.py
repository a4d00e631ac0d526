"""Both backends give the same results, and hostile input to either is an answer, not a crash."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from protocol.ethereum.coincurve_backend import CoincurveBackend
from protocol.ethereum.eth_keys_backend import EthKeysBackend
from protocol.ethereum.secp256k1 import Backend, default_backend
from tests.unit.protocol.streamr.backends import on_every_backend

SECRET = bytes(range(1, 33))
DIGEST = bytes(range(32))


@on_every_backend
def test_recovered_key_is_the_one_that_signed(backend: Backend) -> None:
    key = backend.load_private_key(SECRET)
    signature = key.sign(DIGEST)
    assert backend.recover(DIGEST, signature) == key.public_key
    assert backend.load_public_key(key.public_key).verify(DIGEST, signature)
    assert not backend.load_public_key(key.public_key).verify(DIGEST[::-1], signature)


def test_backends_make_the_same_signatures_and_public_keys() -> None:
    fast, compiled, portable = (
        backend.load_private_key(SECRET)
        for backend in (CoincurveBackend(), EthKeysBackend(), EthKeysBackend(pure_python=True))
    )
    assert fast.public_key == compiled.public_key == portable.public_key
    digests = [DIGEST[:31] + bytes([last_byte]) for last_byte in range(8)]
    one_by_one = [fast.sign(digest) for digest in digests]
    assert one_by_one == [compiled.sign(digest) for digest in digests] == [portable.sign(digest) for digest in digests]
    assert one_by_one == fast.sign_all(digests) == compiled.sign_all(digests)


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        b"\x11" * 64,
        b"\x11" * 66,
        *(b"\x11" * 64 + bytes([v]) for v in (0, 1, 26, 29, 255)),
        bytes(64) + b"\x1b",
    ],
)
@on_every_backend
def test_signature_that_no_key_can_make_recovers_nobody(backend: Backend, signature: bytes) -> None:
    public_key = backend.load_public_key(backend.load_private_key(SECRET).public_key)
    assert backend.recover(DIGEST, signature) is None
    assert not public_key.verify(DIGEST, signature)


@on_every_backend
def test_digest_must_be_32_bytes(backend: Backend) -> None:
    key = backend.load_private_key(SECRET)
    for short in (b"", DIGEST[:31], DIGEST + b"\x00"):
        with pytest.raises(ValueError, match="digest"):
            key.sign(short)
        with pytest.raises(ValueError, match="digest"):
            backend.recover(short, bytes(65))
        with pytest.raises(ValueError, match="digest"):
            backend.load_public_key(key.public_key).verify(short, bytes(65))


@pytest.mark.parametrize("public_key", [b"", b"\x11" * 63, b"\x11" * 64, b"\xff" * 64, bytes(64)])
@on_every_backend
def test_public_key_must_be_a_point_on_the_curve(backend: Backend, public_key: bytes) -> None:
    with pytest.raises(ValueError, match="public key"):
        backend.load_public_key(public_key)


def test_default_is_coincurve_and_eth_keys_is_not_even_imported() -> None:
    assert isinstance(default_backend(), CoincurveBackend)
    program = "import sys, protocol.streamr.signing as s; s.default_backend(); sys.exit('eth_keys' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_compiled_libraries_everything_still_signs_and_verifies() -> None:
    program = (
        "import sys; sys.modules['coincurve'] = sys.modules['tiny_keccak'] = None\n"
        "from protocol.ethereum.signer import Signer\n"
        "from protocol.ethereum.secp256k1 import default_backend\n"
        "print(type(default_backend()).__name__, Signer(b'\\x01' * 32).sign('x'))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    from protocol.ethereum.signer import Signer

    assert done.stdout.split() == ["EthKeysBackend", Signer(b"\x01" * 32).sign("x")]


def test_threads_that_sign_and_recover_at_once_do_not_spoil_each_other() -> None:
    backend = CoincurveBackend()
    key = backend.load_private_key(SECRET)
    digests = [bytes([n]) * 32 for n in range(200)]
    expected = [(key.sign(digest), key.public_key) for digest in digests]

    def sign_and_recover(digest: bytes) -> tuple[bytes, bytes | None]:
        signature = key.sign(digest)
        return signature, backend.recover(digest, signature)

    with ThreadPoolExecutor(max_workers=8) as threads:
        for _ in range(5):
            assert list(threads.map(sign_and_recover, digests)) == expected
