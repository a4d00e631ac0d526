"""Any text through every signature check: a value with a verdict, or a WireError."""

from protocol.errors import WireError
from protocol.streamr.stream_message import parse_stream_message
from protocol.streamr.stream_message.signing import Verifier, recover_signer, verify
from tests.support.streamr_vectors import load_vectors

SEEDS = [text.encode() for vector in load_vectors("signatures")[::5] for text in vector["serialized"].values()]
VERIFIER = Verifier(max_known_keys=4)


def fuzz_one(data: bytes) -> None:
    try:
        message = parse_stream_message(data)
    except WireError:
        return
    verdict = verify(message)
    if verdict:
        assert recover_signer(message) == message.message_id.publisher_id.lower()
        assert VERIFIER.verify(message)
    else:
        VERIFIER.verify(message)
