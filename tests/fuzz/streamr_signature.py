"""Any text through every signature check: a value with a verdict, or a WireError."""

import sys

from protocol.errors import WireError
from protocol.streamr.signing import Verifier, recover_signer, verify
from protocol.streamr.stream_codec import parse_stream_message
from tests.unit.protocol.streamr.vectors import load_vectors

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


def main() -> None:
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
