"""ioMessage against the ioFog Python SDK, on a reading with 100 bytes of content, and the cost of an id."""

from collections.abc import Iterator
from typing import Any

from iofog.microservices.iomessage import IoMessage as SdkMessage

from benchmarks.harness import Figure, cpu_seconds_per_call
from protocol.iomessage import EMPTY_CHAIN, ChainHead, ChainLinker, IoMessage, LinkedTemplate, hash_link, message_ids

ID = "9nY5yQ3rTjUe8mK2pXwVbL7sHcDfGzRaAtBqNhWkPvJx"
PUBLISHER = "0xa5374e3c19f15e1847881979dd0c6c9ffe846bd5"
TIMESTAMP = 1_700_000_000_123
CONTENT = "21.5 " * 20
HEAD = ChainHead(41, "a3f1" * 16)


def measure() -> Iterator[Figure]:
    ours, sdk = _ours(), _sdk()
    data, sdk_data = ours.to_bytes(), sdk.to_bytearray()
    ids = message_ids(bytes(32))
    template, content = LinkedTemplate(ours), CONTENT.encode()
    seconds = cpu_seconds_per_call(
        {
            "our encode": ours.to_bytes,
            "sdk encode": sdk.to_bytearray,
            "our decode": lambda: IoMessage.from_bytes(data),
            "sdk decode": lambda: SdkMessage.from_bytearray(sdk_data),
            "our build": lambda: _ours().to_bytes(),
            "sdk build": lambda: _sdk().to_bytearray(),
            "our link": lambda: hash_link(ours, EMPTY_CHAIN),
            "our template": lambda: ChainLinker(HEAD).link_all([(template, ID, TIMESTAMP, content, b"")]),
            "our id": lambda: next(ids),
        }
    )
    rates = {what: seconds[f"sdk {what}"] / seconds[f"our {what}"] for what in ("encode", "decode", "build")}
    yield Figure(name="ioMessage encode, × ioFog SDK", value=rates["encode"], unit="×", at_least=2)
    yield Figure(name="ioMessage decode, × ioFog SDK", value=rates["decode"], unit="×", at_least=2)
    yield Figure(
        name="ioMessage build and encode, × ioFog SDK", value=rates["build"], unit="×", note="we validate, it does not"
    )
    yield Figure(
        name="ioMessage build, hash-link and encode by template, × encode alone",
        value=seconds["our encode"] / seconds["our template"],
        unit="×",
        at_least=0.5,
        note="the hash included; without the template " + f"{seconds['our encode'] / seconds['our link']:.2f}",
    )
    yield Figure(name="message id", value=seconds["our id"] * 1e6, unit="µs", at_most=1)


def _ours() -> IoMessage:
    return IoMessage(
        id=ID,
        timestamp=TIMESTAMP,
        publisher=PUBLISHER,
        info_type="temperature",
        info_format="Cel/text",
        content_data=CONTENT.encode(),
    )


def _sdk() -> Any:
    message = SdkMessage()
    message.id, message.timestamp, message.publisher = ID, TIMESTAMP, PUBLISHER
    message.infotype, message.infoformat, message.contentdata = "temperature", "Cel/text", CONTENT
    message.contextdata = ""
    return message
