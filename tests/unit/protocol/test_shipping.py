import dataclasses
import json
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from protocol.binding import sign_binding
from protocol.devicelog.entry import MAX_LANES, LaneRange, Replaced
from protocol.devicelog.log import LogHead
from protocol.errors import WireError
from protocol.ethereum import Signer
from protocol.shipping import (
    ARCHIVES_PATH,
    MAX_ARCHIVE_BYTES,
    MAX_CLAIM_CHARACTERS,
    RECEIPTS_PATH,
    ClaimStatement,
    Reaction,
    Refusal,
    UploadClaim,
    archive_path,
    checkpoint_name,
    checkpoint_path,
    digest_in_path,
    log_in_name,
    log_in_path,
    offset_in_header,
    reaction_to,
    receipt_path,
    sign_claim,
)
from tests.support.archives import BINDING, sign
from tests.support.device_logs import log_entry, make_claim

VECTORS = Path(__file__).parents[2] / "vectors" / "shipping"
DIGEST = bytes(range(32))
CLAIM = make_claim(DIGEST)


def test_a_claim_survives_its_header() -> None:
    header = CLAIM.to_header()
    assert header.startswith("Headgate ")
    assert len(header) < MAX_CLAIM_CHARACTERS // 2
    assert UploadClaim.from_header(header) == CLAIM
    assert CLAIM.device == BINDING.address


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("archive", b"x" * 32),
        ("archive", b"short"),
        ("size_bytes", 4097),
        ("size_bytes", 0),
        ("size_bytes", 2**41),
        ("collector_key", b"d" * 32),
        ("entry", log_entry(2)),
        ("signature", b"s" * 64),
        ("signature", b""),
    ],
)
def test_a_claim_that_was_changed_does_not_exist(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"claim is not signed|not within|bytes, not"):
        dataclasses.replace(CLAIM, **{field: value})  # type: ignore[arg-type]


def test_every_flipped_bit_of_a_claim_is_noticed() -> None:
    data = CLAIM.to_bytes()
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(WireError):
            UploadClaim.from_bytes(bytes(changed))


def test_every_beginning_of_a_claim_is_refused() -> None:
    data = CLAIM.to_bytes()
    for end in range(len(data)):
        with pytest.raises(WireError):
            UploadClaim.from_bytes(data[:end])


def test_a_claim_of_a_later_version_is_unsupported() -> None:
    later = CLAIM.to_bytes().replace(b"\x67version\x03", b"\x67version\x04")
    with pytest.raises(WireError, match="version 4"):
        UploadClaim.from_bytes(later)


def test_paths_name_a_digest_in_exactly_one_way() -> None:
    assert digest_in_path(archive_path(DIGEST), ARCHIVES_PATH) == DIGEST
    assert digest_in_path(receipt_path(DIGEST), RECEIPTS_PATH) == DIGEST
    for path in (
        archive_path(DIGEST).upper(),
        archive_path(DIGEST) + "\n",
        archive_path(DIGEST)[:-1],
        receipt_path(DIGEST),
        DIGEST.hex(),
    ):
        assert digest_in_path(path, ARCHIVES_PATH) is None


def test_a_path_and_a_file_name_name_a_log_in_exactly_one_way() -> None:
    log, device = bytes(range(16)), bytes(range(20))
    path, name = checkpoint_path(log), checkpoint_name(device, log)
    assert path == "/logs/000102030405060708090a0b0c0d0e0f/checkpoint"
    assert name == "000102030405060708090a0b0c0d0e0f10111213-000102030405060708090a0b0c0d0e0f.checkpoint"
    assert log_in_path(path) == log
    assert log_in_name(name) == (device, log)
    for other in (path.upper(), path + "\n", path[:-1], path.replace("0f", ""), archive_path(DIGEST)):
        assert log_in_path(other) is None
    for other in (name.upper(), name + "\n", "." + name, name.replace("-", ""), name.replace(".c", "xc")):
        assert log_in_name(other) is None


def test_the_largest_claim_fits_its_header() -> None:
    far = 2**63 - 1
    largest = log_entry(
        2**32 - 1,
        previous_log=b"the-log-before-1",
        previous=bytes(32),
        root=bytes(32),
        replaces=tuple(Replaced(2**32 - 17 + each, bytes(32)) for each in range(16)),
        lanes=tuple(LaneRange(224 + lane, far, far, far) for lane in range(MAX_LANES)),
    )
    statement = ClaimStatement(
        binding=BINDING, archive=DIGEST, size_bytes=MAX_ARCHIVE_BYTES, entry=largest, collector_key=b"c" * 32
    )
    claim = sign_claim(statement, sign)
    assert UploadClaim.from_header(claim.to_header()) == claim


@pytest.mark.parametrize("text", ["", "-1", "+1", "01", "1.0", " 1", "1 ", "1e3", "٣", "9" * 14, "0x10"])
def test_an_offset_is_a_plain_number(text: str) -> None:
    with pytest.raises(WireError):
        offset_in_header(text)
    assert [offset_in_header(good) for good in ("0", "1", "1099511627776")] == [0, 1, 2**40]


def test_every_refusal_has_a_code_of_its_own_and_a_reaction() -> None:
    codes = [refusal.code for refusal in Refusal]
    assert len(set(codes)) == len(codes)
    assert all(reaction_to(refusal.status, refusal.code) == refusal.reaction for refusal in Refusal)
    assert all(400 <= refusal.status < 600 for refusal in Refusal)


def test_an_unknown_response_code_has_a_safe_reaction() -> None:
    assert reaction_to(502, None) == Reaction.RETRY
    assert reaction_to(429, "something new") == Reaction.RETRY
    assert reaction_to(418, "something new") == Reaction.ASK_OPERATOR


def test_the_worked_example_of_the_document_is_what_we_write_and_read() -> None:
    example = json.loads((VECTORS / "claim.json").read_text())
    archive_key = SigningKey(bytes.fromhex(example["archive_key_seed"]))
    head = LogHead(log=bytes.fromhex(example["log"]))
    statement = ClaimStatement(
        binding=sign_binding(Signer(bytes.fromhex(example["device_secret"])), bytes(archive_key.verify_key)),
        archive=bytes.fromhex(example["archive"]),
        size_bytes=example["size_bytes"],
        entry=head.entry({0: example["next_position_of_lane_0"]}),
        collector_key=bytes(SigningKey(bytes.fromhex(example["collector_key_seed"])).verify_key),
    )
    claim = sign_claim(statement, lambda message: archive_key.sign(message).signature)
    assert claim.to_header() == example["authorization"]
    assert claim.to_bytes().hex() == example["claim"]
    assert UploadClaim.from_header(example["authorization"]) == claim
