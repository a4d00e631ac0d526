import dataclasses
from typing import Any

import pytest

from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.firmware import MAX_COUNTER, MAX_IMAGE_BYTES, Manifest, is_signed_by
from protocol.firmware.manifest import MAX_MANIFEST_BYTES
from tests.support.boot_library import parse_manifest
from tests.support.firmware_samples import BUILDER_KEY, UNKNOWN, package
from tests.vectors import load_vectors

VECTORS = load_vectors("firmware/manifests.json")
GOOD = [vector for vector in VECTORS if vector["fields"] is not None]
REFUSED = [vector for vector in VECTORS if vector["fields"] is None]
MANIFEST = package().manifest


@pytest.mark.parametrize("vector", GOOD, ids=[vector["name"] for vector in GOOD])
def test_the_manifests_of_the_vectors_are_read_and_written(vector: dict[str, dict[str, str]]) -> None:
    data, fields = bytes.fromhex(str(vector["manifest"])), vector["fields"]
    manifest = Manifest.from_bytes(data)
    assert {**dataclasses.asdict(manifest), "sha512": manifest.sha512.hex()} == fields
    assert manifest.to_bytes() == data
    assert is_signed_by(BUILDER_KEY, manifest, bytes.fromhex(str(vector["signature"])))


@pytest.mark.parametrize("vector", REFUSED, ids=[vector["name"] for vector in REFUSED])
def test_what_the_vectors_refuse_is_refused(vector: dict[str, str]) -> None:
    with pytest.raises(WireError):
        Manifest.from_bytes(bytes.fromhex(vector["manifest"]))


@pytest.mark.needs("gcc", "build-essential")
@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_the_boot_loader_reads_the_vectors_alike(vector: dict[str, Any]) -> None:
    found = parse_manifest(bytes.fromhex(vector["manifest"]))
    names = ("board", "version", "counter", "size_bytes", "sha512")
    reported = None if found is None else dict(zip(names, (*found[:4], found[4].hex()), strict=True))
    assert reported == vector["fields"]


def test_the_largest_manifest_is_as_large_as_the_limit_says() -> None:
    assert max(len(bytes.fromhex(vector["manifest"])) for vector in GOOD) == MAX_MANIFEST_BYTES


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"board": ""}, "board of 0 characters"),
        ({"board": "b" * 33}, "board of 33 characters"),
        ({"version": "1 0"}, "not printable ASCII, or a space"),
        ({"version": "1.0\x7f"}, "not printable ASCII"),
        ({"counter": -1}, "counter -1"),
        ({"counter": MAX_COUNTER + 1}, "counter"),
        ({"size_bytes": 0}, "the image is empty"),
        ({"size_bytes": MAX_IMAGE_BYTES + 1}, "size_bytes"),
        ({"sha512": b"short"}, "sha512 of 5 bytes"),
    ],
)
def test_a_manifest_that_no_device_could_take_cannot_exist(change: dict[str, object], problem: str) -> None:
    values = {field.name: getattr(MANIFEST, field.name) for field in dataclasses.fields(Manifest)}
    with pytest.raises(ValueError, match=problem):
        Manifest(**{**values, **change})


def test_every_beginning_of_a_manifest_is_truncated() -> None:
    data = MANIFEST.to_bytes()
    for end in range(len(data)):
        with pytest.raises(Truncated):
            Manifest.from_bytes(data[:end])


def test_a_later_version_is_unsupported_and_not_corrupt() -> None:
    with pytest.raises(Unsupported, match="knows 1"):
        Manifest.from_bytes(b"\x81\x02")
    with pytest.raises(Corrupt):
        Manifest.from_bytes(b"\x81\x01")


def test_a_signature_holds_for_its_manifest_and_key_only() -> None:
    signed = package()
    assert is_signed_by(BUILDER_KEY, signed.manifest, signed.signature)
    assert not is_signed_by(bytes(UNKNOWN.verify_key), signed.manifest, signed.signature)
    assert not is_signed_by(BUILDER_KEY, dataclasses.replace(signed.manifest, counter=2), signed.signature)
    assert not is_signed_by(BUILDER_KEY, signed.manifest, b"short")
