"""StreamMessages with 100 bytes of content against bare signatures and against the JavaScript reference.

The limits leave everything that is not the signature itself a sixth of its time. Keccak-256 is measured
too, because the choice among its implementations rests on this figure.
"""

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import coincurve
import sha3
from Crypto.Hash import keccak as pycryptodome_keccak
from eth_hash.auto import keccak as eth_hash_keccak

from benchmarks.harness import Figure, cpu_seconds_per_call
from protocol.streamr.chain_writer import ChainWriter
from protocol.streamr.ethereum import keccak256
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.signer import Signer
from protocol.streamr.signing import Verifier, sign_message, verify
from protocol.streamr.stream_codec import parse_stream_message
from protocol.streamr.stream_message import StreamMessage

SECRET: Final = bytes(range(1, 33))
SIGNER: Final = Signer(SECRET)
STREAM_ID: Final = "0xa5374e3c19f15e1847881979dd0c6c9ffe846bd5/sensors"
CHAIN_ID: Final = "jq4ze0r1fa8dk2n7xw3s"
TIMESTAMP: Final = 1_700_000_000_123
CONTENT: Final = '{"ioMessage":"' + "AQIDBA==" * 10 + 'AQID"}'
DIGEST: Final = bytes(range(32))

PEER: Final = "streamr-client-protocol@9.1.2"
PEER_ROUNDS: Final = 3
PEER_CPU_S: Final = 0.7


def measure() -> Iterator[Figure]:
    yield from _measure_keccak()
    seconds, peer = _measure_messages(), _measure_peer()
    bare_sign, bare_recover = seconds["bare sign"], seconds["bare recover"]
    yield _rate("create, sign and serialise, × bare sign", bare_sign / seconds["write"], 0.85)
    yield _rate("the same by the general encoder, × bare sign", bare_sign / seconds["write generally"])
    yield _rate(
        "parse and verify, × bare recover",
        bare_recover / seconds["read, key known"],
        0.85,
        "by Verifier: keys are recovered once",
    )
    yield _rate("parse and verify by recovery, × bare recover", bare_recover / seconds["read"])
    if peer:
        yield _rate(f"create, sign and serialise, × {PEER}", peer["write"] / seconds["write"], 2)
        yield _rate(f"parse and verify, × {PEER}", peer["read"] / seconds["read, key known"], 2)


def _rate(name: str, value: float, at_least: float | None = None, note: str = "") -> Figure:
    return Figure(name=f"StreamMessage {name}", value=value, unit="×", at_least=at_least, note=note)


def _measure_keccak() -> Iterator[Figure]:
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


def _measure_messages() -> dict[str, float]:
    key = coincurve.PrivateKey(SECRET)
    signature = key.sign_recoverable(DIGEST, hasher=None)
    text, verifier = _write(), Verifier()
    assert verify(parse_stream_message(text))
    assert _write_generally().encode() == text
    return cpu_seconds_per_call(
        {
            "bare sign": lambda: key.sign_recoverable(DIGEST, hasher=None),
            "write": _write,
            "write generally": _write_generally,
            "bare recover": lambda: coincurve.PublicKey.from_signature_and_message(signature, DIGEST, hasher=None),
            "read": lambda: verify(parse_stream_message(text)),
            "read, key known": lambda: verifier.verify(parse_stream_message(text)),
        }
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


def _measure_peer() -> dict[str, float] | None:
    """CPU seconds per call of the reference; None where there is no Node, no registry or no native curve."""
    try:
        node, folder = _install_peer()
        rounds = [_run_peer(node, folder) for _ in range(PEER_ROUNDS)]
    except _NoPeerError as reason:
        print(f"{PEER} is not measured: {reason}", file=sys.stderr)
        return None
    return {name: statistics.median(figures[name] for figures in rounds) for name in ("write", "read")}


def _install_peer() -> tuple[str, Path]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise _NoPeerError("Node is not installed")
    folder = Path(sys.prefix) / "npm-peers"
    folder.mkdir(exist_ok=True)
    if not (folder / "node_modules" / "streamr-client-protocol").exists():
        _run([npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", PEER], folder)
    return node, folder


def _run_peer(node: str, folder: Path) -> dict[str, Any]:
    fields = {
        "streamId": STREAM_ID,
        "timestamp": TIMESTAMP,
        "publisherId": SIGNER.address,
        "msgChainId": CHAIN_ID,
        "content": CONTENT,
    }
    script = Path(__file__).with_name("streamr_peer.js")
    figures: dict[str, Any] = json.loads(
        _run([node, str(script), json.dumps(fields), SECRET.hex(), str(PEER_CPU_S)], folder)
    )
    assert figures["text"].encode() == _write(), "the reference writes another message"
    return figures


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _NoPeerError(done.stderr.strip()[-300:])
    return done.stdout
