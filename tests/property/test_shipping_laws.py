"""What holds for every claim, and for every text in the place of one."""

from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.shipping import (
    ARCHIVES_PATH,
    MAX_ARCHIVE_BYTES,
    ClaimStatement,
    UploadClaim,
    archive_path,
    checkpoint_name,
    checkpoint_path,
    digest_in_path,
    log_in_name,
    log_in_path,
    offset_in_header,
    sign_claim,
)
from tests.support.archives import BINDING, sign
from tests.support.device_logs import log_entry

STATEMENTS = st.builds(
    ClaimStatement,
    binding=st.just(BINDING),
    archive=st.binary(min_size=32, max_size=32),
    size_bytes=st.integers(1, MAX_ARCHIVE_BYTES),
    entry=st.integers(0, 5).map(log_entry),
    collector_key=st.binary(min_size=32, max_size=32),
)
CLAIMS = st.builds(sign_claim, STATEMENTS, st.just(sign))


@given(CLAIMS)
def test_a_claim_is_the_same_after_any_journey(claim: UploadClaim) -> None:
    assert UploadClaim.from_bytes(claim.to_bytes()) == claim
    assert UploadClaim.from_header(claim.to_header()) == claim


@given(CLAIMS, st.data())
def test_a_claim_with_a_part_changed_is_none(claim: UploadClaim, data: st.DataObject) -> None:
    text = claim.to_bytes()
    position = data.draw(st.integers(0, len(text) - 1))
    replacement = data.draw(st.binary(max_size=4))
    changed = text[:position] + replacement + text[position + len(replacement) :]
    try:
        assert UploadClaim.from_bytes(changed).to_bytes() == changed == text
    except WireError:
        assert changed != text


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_a_claim_or_a_wire_error(data: bytes) -> None:
    for read in (UploadClaim.from_bytes, lambda raw: UploadClaim.from_header("Headgate " + raw.decode("latin-1"))):
        try:
            read(data)
        except WireError:
            continue


@given(st.text() | st.from_regex(r"/archives/[0-9a-fA-F]{63,65}/?", fullmatch=True))
def test_a_path_names_a_digest_in_one_spelling_only(path: str) -> None:
    digest = digest_in_path(path, ARCHIVES_PATH)
    assert digest is None or archive_path(digest) == path


@given(st.text() | st.from_regex(r"/logs/[0-9a-fA-F]{31,33}/checkpoint", fullmatch=True))
def test_a_path_names_a_log_in_one_spelling_only(path: str) -> None:
    log = log_in_path(path)
    assert log is None or checkpoint_path(log) == path


@given(st.text() | st.from_regex(r"[0-9a-fA-F]{39,41}-[0-9a-f]{31,33}\.checkpoint", fullmatch=True))
def test_a_file_names_a_log_in_one_spelling_only(name: str) -> None:
    found = log_in_name(name)
    assert found is None or checkpoint_name(*found) == name


@given(st.text() | st.integers().map(str))
def test_an_offset_has_one_spelling_only(text: str) -> None:
    try:
        assert str(offset_in_header(text)) == text
    except WireError:
        return
