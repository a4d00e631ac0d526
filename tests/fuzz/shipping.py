"""Fuzz what a collector reads of an unknown client's request. `python -m tests.fuzz shipping -runs=100000`"""

from protocol.errors import WireError
from protocol.shipping import ARCHIVES_PATH, UploadClaim, archive_path, digest_in_path, offset_in_header
from tests.support.device_logs import make_claim

_CLAIM = make_claim(b"a" * 32)
SEEDS = [_CLAIM.to_bytes(), _CLAIM.to_header().encode(), archive_path(b"a" * 32).encode(), b"1099511627776"]


def fuzz_one(data: bytes) -> None:
    text = data.decode("latin-1")
    digest = digest_in_path(text, ARCHIVES_PATH)
    assert digest is None or archive_path(digest) == text
    for check in (_offset, _header, _claim):
        try:
            check(data, text)
        except WireError:
            continue


def _offset(_: bytes, text: str) -> None:
    assert str(offset_in_header(text)) == text


def _header(_: bytes, text: str) -> None:
    claim = UploadClaim.from_header(text)
    assert UploadClaim.from_header(claim.to_header()) == claim


def _claim(data: bytes, _: str) -> None:
    assert UploadClaim.from_bytes(data).to_bytes() == data
