"""Messages and streams for tests of the node."""

from node.streams import Stream
from protocol.ethereum.signer import Signer
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message

ALICE = Signer(b"\x11" * 32)
BOB = Signer(b"\x22" * 32)
STREAM_ID = f"{ALICE.address}/boiler"
NOW_MS = 1_700_000_000_000


def a_stream(**settings: object) -> Stream:
    return Stream(**{"id": STREAM_ID, **settings})  # type: ignore[arg-type]


def a_message(
    n: int = 1,
    *,
    previous: int | None = None,
    stream_id: str = STREAM_ID,
    partition: int = 0,
    publisher: str = ALICE.address,
    chain: str = "chain",
    **fields: object,
) -> StreamMessage:
    """The n-th message of a chain, n milliseconds after `NOW_MS`, naming its predecessor where that is given."""
    return StreamMessage(
        MessageID(stream_id, partition, NOW_MS + n, 0, publisher, chain),
        f'{{"n":{n}}}',
        None if previous is None else MessageRef(NOW_MS + previous, 0),
        **fields,  # type: ignore[arg-type]
    )


def a_signed_message(n: int = 1, *, signer: Signer = ALICE, **fields: object) -> StreamMessage:
    return sign_message(a_message(n, publisher=signer.address, **fields), signer)  # type: ignore[arg-type]
