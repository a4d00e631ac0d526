"""Both backends give the same results, and hostile input to either is an answer, not a crash."""

import subprocess
import sys

import pytest
from coincurve._libsecp256k1 import ffi

from protocol.ethereum import coincurve_backend
from protocol.ethereum.coincurve_backend import CoincurveBackend
from protocol.ethereum.eth_keys_backend import EthKeysBackend
from protocol.ethereum.secp256k1 import Backend, default_backend
from tests.effort import effort
from tests.support.curve_backends import on_every_backend

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
def test_signature_that_no_key_can_make_recovers_no_key(backend: Backend, signature: bytes) -> None:
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
    signing = "protocol.streamr.stream_message.signing"
    program = f"import sys, {signing} as s; s.default_backend(); sys.exit('eth_keys' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_compiled_libraries_everything_still_signs_and_verifies() -> None:
    program = (
        "import sys; sys.modules['coincurve'] = sys.modules['tiny_keccak'] = None\n"
        "from protocol.ethereum.signer import Signer\n"
        "from protocol.ethereum.secp256k1 import default_backend\n"
        "print(type(default_backend()).__name__, Signer(b'\\x01' * 32).sign_message_digests([bytes(32)])[0].hex())"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    from protocol.ethereum.signer import Signer

    assert done.stdout.split() == ["EthKeysBackend", Signer(b"\x01" * 32).sign_message_digests([bytes(32)])[0].hex()]


# Runs in a process of its own: libsecp256k1 ends the process when it finds its arguments spoiled.
EVERY_FUNCTION_IN_FOUR_THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from protocol.ethereum.coincurve_backend import CoincurveBackend
from protocol.ethereum.eth_keys_backend import EthKeysBackend
from protocol.ethereum.hashing import eip191_digest, keccak256

name, calls = sys.argv[1], int(sys.argv[2])
backend = CoincurveBackend() if name == "coincurve" else EthKeysBackend(pure_python=True)
digests = [bytes([n]) * 32 for n in range(4)]
keys = [backend.load_private_key(bytes([n]) * 32) for n in range(1, 5)]
signatures = [key.sign(digest) for key, digest in zip(keys, digests)]
public_keys = [backend.load_public_key(key.public_key) for key in keys]
functions = [
    lambda n: [backend.recover(digests[n], signatures[n]) for _ in range(4)],
    lambda n: backend.recover(digests[n - 1], signatures[n]),
    lambda n: keys[0].sign(digests[n]),
    lambda n: keys[n].sign_all(digests[:2]),
    lambda n: public_keys[0].verify(digests[n], signatures[n]),
    lambda n: public_keys[n].verify_all(digests, signatures),
    lambda n: backend.load_private_key(bytes([n + 1]) * 32).public_key,
    lambda n: backend.load_public_key(keys[n].public_key).verify(digests[n], signatures[n]),
    lambda n: keccak256(digests[n]) + eip191_digest(digests[n]),
]

def call_again_and_again(function, number, expected):
    assert all(function(number) == expected for _ in range(calls))

def call_all_in_turn(number):
    assert all([function(number) for function in functions] == expected_of_all[number] for _ in range(calls // 4))

expected_of_all = [[function(number) for function in functions] for number in range(4)]
with ThreadPoolExecutor(max_workers=4) as threads:
    for index, function in enumerate(functions):
        expected = [expected_of_all[number][index] for number in range(4)]
        list(threads.map(call_again_and_again, [function] * 4, range(4), expected))
    list(threads.map(call_all_in_turn, range(4)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "calls"), [("coincurve", effort(test=200, soak=100_000)), ("eth-keys", effort(test=1, soak=100))]
)
def test_threads_that_use_one_function_at_once_do_not_spoil_each_other(backend: str, calls: int) -> None:
    program = [sys.executable, "-c", EVERY_FUNCTION_IN_FOUR_THREADS, backend, str(calls)]
    done = subprocess.run(program, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_coincurve_backend_holds_no_foreign_memory_that_calls_write_to() -> None:
    foreign = {
        name
        for name, value in vars(coincurve_backend).items()
        if isinstance(value, ffi.CData) and ffi.typeof(value).kind == "pointer"
    }
    assert foreign == {"_CONTEXT", "_NULL"}
