"""What real implementations wrote, read back field by field and written again byte for byte."""

import contextlib
import hashlib
from typing import Any

import pytest

from protocol.errors import Corrupt, Unsupported, WireError
from protocol.iomessage import IoMessage, Quirk, as_bytes
from protocol.iomessage.fields import INTEGER_LIMITS, JSON_KEYS, Fields
from tests.vectors import load_vectors

PROFILES: dict[str, as_bytes.Profile] = {
    "reference": "minimal",
    "python-sdk-3.0.0b2": "minimal",
    "go-sdk-3.3.0-ctxset": "minimal",
    "java-agent-3.1.0": "agent",
    "node-sdk-2.0.2": "agent",
}
WELL_FORMED_COUNTS = {
    "reference": 113,
    "python-sdk-3.0.0b2": 101,
    "go-sdk-3.3.0-ctxset": 113,
    "java-agent-3.1.0": 105,
    "node-sdk-2.0.2": 102,
}
PRODUCERS = [*PROFILES, "node-sdk-3.0.0"]


def vectors_of(producer: str) -> list[dict[str, Any]]:
    return load_vectors(f"iomessage/{producer}.json")


def well_formed(producer: str) -> list[dict[str, Any]]:
    return [vector for vector in vectors_of(producer) if vector.get("spec_parse") == "ok"]


def fields_of(vector: dict[str, Any]) -> Fields:
    """The fields as the caller of the SDK set them."""
    found = {name: _value(vector["fields"].get(key)) for name, key in JSON_KEYS.items() if name != "version"}
    found["context_data"] = _blob(vector["fields"]["contextdata_hex"])
    found["content_data"] = _blob(vector["fields"]["contentdata_hex"])
    return Fields(**found)


def _value(value: Any) -> Any:
    return value["$gen"]["unit"] * value["$gen"]["count"] if isinstance(value, dict) else value


def _blob(value: Any) -> bytes | None:
    if isinstance(value, dict):
        return bytes.fromhex(value["$gen"]["unit_hex"]) * int(value["$gen"]["count"])
    return None if value is None else bytes.fromhex(value)


def without_absence(fields: Fields) -> tuple[object, ...]:
    """The SDKs cannot tell absent from empty or zero."""
    return tuple(value or None for value in fields)


def with_zero_integers(fields: Fields) -> Fields:
    """The Python and Go SDKs write an absent integer as 0."""
    return Fields(**fields._asdict() | {name: getattr(fields, name) or 0 for name in INTEGER_LIMITS})


def binary_of(vector: dict[str, Any], profile: as_bytes.Profile) -> bytes:
    """The producer's bytes; large ones are given by their digest, so ours must have the same."""
    if "binary_hex" in vector:
        return bytes.fromhex(vector["binary_hex"])
    fields = fields_of(vector)
    zeroes = vector["producer"].startswith(("python", "go"))
    data = as_bytes.encode(with_zero_integers(fields) if zeroes else fields, profile)
    assert hashlib.sha256(data).hexdigest() == vector["binary_sha256"]
    return data


def with_seven_bytes_padded_to_eight(data: bytes, vector: dict[str, Any]) -> bytes:
    """What we write where the Python and Go SDKs write an integer of 7 bytes: no JavaScript decoder reads 7."""
    lengths: dict[str, int] = vector["field_lengths"]
    for key, length_at in {"timestamp": 9, "chainposition": 15}.items():
        if lengths[key] == 7:
            names = list(lengths)
            value_at = as_bytes.HEADER_BYTES + sum(lengths[name] for name in names[: names.index(key)])
            return data[:length_at] + b"\x08" + data[length_at + 1 : value_at] + b"\x00" + data[value_at:]
    return data


@pytest.mark.parametrize("producer", PROFILES)
def test_every_well_formed_vector_is_read_and_written_again_byte_for_byte(producer: str) -> None:
    vectors = well_formed(producer)
    assert len(vectors) == WELL_FORMED_COUNTS[producer]
    for vector in vectors:
        data = binary_of(vector, PROFILES[producer])
        assert len(data) == vector["binary_len"], vector["name"]
        message = IoMessage.from_bytes(data)
        assert message.quirks is Quirk.NONE
        assert without_absence(message) == without_absence(fields_of(vector)), vector["name"]
        expected = with_seven_bytes_padded_to_eight(data, vector)
        assert message.to_bytes(profile=PROFILES[producer]) == expected, vector["name"]


def test_what_we_write_is_the_reference_encoding() -> None:
    built = 0
    for vector in well_formed("reference"):
        fields = fields_of(vector)._asdict()
        del fields["quirks"]
        if all(fields[name] for name in ("id", "timestamp", "publisher", "info_type", "info_format")):
            fields["content_data"] = fields["content_data"] or b""
            assert IoMessage(**fields).to_bytes() == binary_of(vector, "minimal"), vector["name"]
            built += 1
    assert built == 111


def test_a_message_that_the_reference_refuses_is_refused() -> None:
    refused = [vector for vector in vectors_of("reference") if "error" in vector]
    assert len(refused) == 3
    for vector in refused:
        fields = fields_of(vector)._asdict()
        del fields["quirks"]
        with pytest.raises(Corrupt, match=r"(id|tag) is \d+ bytes long in UTF-8; the limit is \d+"):
            IoMessage(**fields)


@pytest.mark.parametrize("producer", PRODUCERS)
def test_odd_and_corrupt_vectors_give_a_value_or_a_wire_error(producer: str) -> None:
    for vector in vectors_of(producer):
        if "binary_hex" in vector and vector["spec_parse"] != "ok":
            with contextlib.suppress(WireError):
                message = IoMessage.from_bytes(bytes.fromhex(vector["binary_hex"]))
                assert IoMessage.from_bytes(message.to_bytes())[:-1] == message[:-1]


def test_times_that_node_wrote_as_doubles_are_read_and_flagged() -> None:
    doubles = [vector for vector in vectors_of("node-sdk-3.0.0") if vector["spec_parse"] == "values differ"]
    read = 0
    for vector in doubles:
        fields = fields_of(vector)
        if "binary_hex" in vector and vector["in_safe_profile"]:
            message = IoMessage.from_bytes(bytes.fromhex(vector["binary_hex"]))
            assert Quirk.DOUBLE_INTEGER in message.quirks, vector["name"]
            assert (message.timestamp or None, message.chain_position or None) == (
                fields.timestamp or None,
                fields.chain_position or None,
            ), vector["name"]
            read += 1
    assert read > 50


@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_json_of_every_sdk_is_read(producer: str) -> None:
    known_wrong = {"timestamp"} if producer.startswith("node") else set[str]()  # these SDKs write 0 for it, always
    for vector in well_formed(producer):
        if "json" in vector and vector["in_safe_profile"]:
            message, expected = IoMessage.from_json(vector["json"]), fields_of(vector)
            for name in set(JSON_KEYS) - known_wrong:
                assert (getattr(message, name) or None) == (getattr(expected, name) or None), (vector["name"], name)


def test_json_through_the_java_agent_keeps_its_fields_though_the_agent_says_version_0() -> None:
    round_trips = load_vectors("iomessage/agent_rest_roundtrip.json")
    assert len(round_trips) == 6
    for vector in round_trips:
        sent, came = IoMessage.from_json(vector["json_in"]), IoMessage.from_json(vector["json_out"])
        assert without_absence(came) == without_absence(sent), vector["name"]


PROBES: dict[str, dict[str, object] | type[WireError]] = {
    "spec_0.0": {"difficulty_target": 0, "tag": "Bosch Camera 16", "group_id": ""},
    "only_required": {"tag": None, "sequence_number": None, "context_data": None, "version": 4},
    "nulls": {"tag": None, "group_id": None, "sequence_number": None, "context_data": None},
    "null_context_only": {"context_data": None, "tag": "", "priority": 0},
    "strings_for_ints": {"sequence_number": 7, "timestamp": 1234567890123, "version": 4},
    "CamelCase_keys": {"id": "x", "tag": "t", "info_type": "a", "info_format": "b"},
    "difficulty_1.75": Corrupt,
    "version_0": {"version": 4},
    "version_5": Unsupported,
    "unknown_key": {"id": "x"},
    "b64_unpadded": {"content_data": b"21.5"},
    "b64_urlsafe": {"content_data": b"\xff\xef"},
    "b64_newlines": {"content_data": b"21.5"},
    "b64_invalid": Corrupt,
}


def test_odd_json_is_read_by_the_rules() -> None:
    probes = {vector["name"]: vector["json"] for vector in load_vectors("iomessage/json_reader_probes.json")}
    assert probes.keys() == PROBES.keys()
    for name, expected in PROBES.items():
        if isinstance(expected, dict):
            message = IoMessage.from_json(probes[name])
            assert {field: getattr(message, field) for field in expected} == expected, name
        else:
            with pytest.raises(expected):
                IoMessage.from_json(probes[name])
