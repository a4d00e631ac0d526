"""StreamMessages with 100 bytes of content against bare signatures and against the JavaScript reference.

The limits leave everything that is not the signature itself a sixth of its time. Keccak-256 is measured
too, because the choice among its implementations rests on this figure.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import coincurve

from benchmarks.harness import Figure, NotTaken, Result, cpu_seconds_per_call
from benchmarks.programs import NEEDS, measure_with
from protocol.ethereum.hashing import keccak256
from protocol.ethereum.signer import Signer
from protocol.iomessage.content import BINARY_CONTENT
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage, parse_stream_message
from protocol.streamr.stream_message.chain_writer import ChainWriter
from protocol.streamr.stream_message.signing import Verifier, sign_message, verify

SECRET: Final = bytes(range(1, 33))
SIGNER: Final = Signer(SECRET)
STREAM_ID: Final = "0xa5374e3c19f15e1847881979dd0c6c9ffe846bd5/sensors"
CHAIN_ID: Final = "jq4ze0r1fa8dk2n7xw3s"
TIMESTAMP: Final = 1_700_000_000_123
CONTENT: Final = ("AQIDBA==" * 10 + "AQID").join(BINARY_CONTENT)
DIGEST: Final = bytes(range(32))

PEER: Final = "streamr-client-protocol@9.1.2"
PEER_CPU_S: Final = 0.7
ROUNDS: Final = 3
AGAINST_PEER: Final = {"write": f"create, sign and serialise, × {PEER}", "read": f"parse and verify, × {PEER}"}

Work = dict[str, Callable[[], object]]


def measure() -> Iterator[Result]:
    yield from _measure_keccak()
    text, verifier = _write(), Verifier()
    assert verify(parse_stream_message(text))
    assert _write_generally().encode() == text
    private_key = coincurve.PrivateKey(SECRET)
    signature = private_key.sign_recoverable(DIGEST, hasher=None)
    work: Work = {
        "bare sign": lambda: private_key.sign_recoverable(DIGEST, hasher=None),
        "bare recover": lambda: coincurve.PublicKey.from_signature_and_message(signature, DIGEST, hasher=None),
        "write": _write,
        "write generally": _write_generally,
        "read": lambda: verifier.verify(parse_stream_message(text)),
        "read by recovery": lambda: verify(parse_stream_message(text)),
    }
    yield _rate("create, sign and serialise, × bare sign", _ratio(work, "bare sign", "write"), 0.85)
    yield _rate("the same by the general encoder, × bare sign", _ratio(work, "bare sign", "write generally"))
    yield _rate(
        "parse and verify, × bare recover", _ratio(work, "bare recover", "read"), 0.85, "a Verifier knows the key"
    )
    yield _rate("parse and verify by recovery, × bare recover", _ratio(work, "bare recover", "read by recovery"))
    yield from _reference_figures(work)


def _ratio(work: Work, limit: str, ours: str) -> float:
    """The median of several measurements, because the margin is smaller than the noise of a busy machine."""
    taken = [cpu_seconds_per_call({name: work[name] for name in (limit, ours)}) for _ in range(ROUNDS)]
    return statistics.median(seconds[limit] / seconds[ours] for seconds in taken)


def _rate(name: str, value: float, at_least: float | None = None, note: str = "") -> Figure:
    return Figure(name=_name(name), value=value, unit="×", at_least=at_least, note=note)


def _name(what: str) -> str:
    return f"StreamMessage {what}"


def _measure_keccak() -> Iterator[Figure]:
    import sha3
    from Crypto.Hash import keccak as pycryptodome_keccak
    from eth_hash.auto import keccak as eth_hash_keccak

    payload = b"x" * 436
    seconds = cpu_seconds_per_call(
        {
            "ours": lambda: keccak256(payload),
            "safe-pysha3": lambda: sha3.keccak_256(payload).digest(),
            "pycryptodome": lambda: pycryptodome_keccak.new(digest_bits=256, data=payload).digest(),
            "eth-hash": lambda: eth_hash_keccak(payload),
        }
    )
    ours = seconds.pop("ours")
    shown = ", ".join(f"{name} {taken * 1e6:.1f} µs" for name, taken in seconds.items())
    yield Figure(
        name="Keccak-256 of 436 bytes, × the next best",
        value=min(seconds.values()) / ours,
        unit="×",
        at_least=1,
        note=f"tiny-keccak {ours * 1e6:.1f} µs, {shown}",
    )


_WRITER: Final = ChainWriter(SIGNER, stream_id=STREAM_ID, msg_chain_id=CHAIN_ID)
_PREVIOUS: Final = MessageRef(TIMESTAMP, 0)


def _write() -> bytes:
    return _WRITER.write(CONTENT, MessageRef(TIMESTAMP, 1), _PREVIOUS)


def _write_generally() -> str:
    message_id = MessageID(STREAM_ID, 0, TIMESTAMP, 1, SIGNER.address, CHAIN_ID)
    return sign_message(StreamMessage(message_id, CONTENT, _PREVIOUS), SIGNER).serialize()


class _NoPeerError(Exception):
    """The reference cannot be run here."""


def _reference_figures(work: Work) -> Iterator[Result]:
    return measure_with(NEEDS["streamr"], map(_name, AGAINST_PEER.values()), partial(_compare_with_peer, work))


def _compare_with_peer(work: Work) -> Iterator[Result]:
    """Our rate against that of the reference; not taken if it cannot be installed or has no native curve."""
    ours, rounds = {name: work[name] for name in AGAINST_PEER}, []
    try:
        folder = _install_peer()
        for _ in range(ROUNDS):
            peer = _run_peer(folder)
            rounds.append((peer, cpu_seconds_per_call(ours, statistics.median)))
    except _NoPeerError as reason:
        yield from (NotTaken(name=_name(what), reason=str(reason)) for what in AGAINST_PEER.values())
        return
    for name, what in AGAINST_PEER.items():
        yield _rate(what, statistics.median(peer[name] / seconds[name] for peer, seconds in rounds), 2)


def _install_peer() -> Path:
    folder = Path(sys.prefix) / "npm-peers"
    folder.mkdir(exist_ok=True)
    if not (folder / "node_modules" / "streamr-client-protocol").exists():
        _run(["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", PEER], folder)
    return folder


def _run_peer(folder: Path) -> dict[str, Any]:
    fields = {
        "streamId": STREAM_ID,
        "timestamp": TIMESTAMP,
        "publisherId": SIGNER.address,
        "msgChainId": CHAIN_ID,
        "content": CONTENT,
    }
    script = Path(__file__).with_name("streamr_peer.js")
    figures: dict[str, Any] = json.loads(
        _run(["node", str(script), json.dumps(fields), SECRET.hex(), str(PEER_CPU_S)], folder)
    )
    assert figures["text"].encode() == _write(), "the reference writes another message"
    return figures


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _NoPeerError(done.stderr.strip()[-300:])
    return done.stdout
