"""Laws of firmware files, for any content; C and Python agree on any bytes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.firmware import MAX_COUNTER, MAX_IMAGE_BYTES, Manifest, Package, is_signed_by
from tests.support.boot_library import parse_manifest
from tests.support.firmware_samples import BUILDER_KEY, package

names = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=32)
counters = st.integers(0, MAX_COUNTER)
manifests = st.builds(
    Manifest,
    board=names,
    version=names,
    counter=counters,
    size_bytes=st.integers(1, MAX_IMAGE_BYTES),
    sha512=st.binary(min_size=64, max_size=64),
)
packages = st.builds(package, st.binary(min_size=1, max_size=600), board=names, version=names, counter=counters)


def as_tuple(manifest: Manifest) -> tuple[str, str, int, int, bytes]:
    return manifest.board, manifest.version, manifest.counter, manifest.size_bytes, manifest.sha512


def python_reads(data: bytes) -> tuple[str, str, int, int, bytes] | None:
    with contextlib.suppress(WireError):
        return as_tuple(Manifest.from_bytes(data))
    return None


@given(manifests)
def test_a_manifest_comes_back_from_its_bytes(manifest: Manifest) -> None:
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


@given(packages)
def test_a_package_comes_back_from_its_bytes_and_is_still_signed(signed: Package) -> None:
    again = Package.from_bytes(signed.to_bytes())
    assert again == signed
    assert is_signed_by(BUILDER_KEY, again.manifest, again.signature)


@pytest.mark.needs("gcc", "build-essential")
@given(manifests)
def test_the_boot_loader_reads_what_python_writes(manifest: Manifest) -> None:
    assert parse_manifest(manifest.to_bytes()) == as_tuple(manifest)


@pytest.mark.needs("gcc", "build-essential")
@given(manifests, st.integers(0, 200), st.binary(max_size=3), st.integers(0, 3))
def test_the_boot_loader_and_python_agree_on_damaged_manifests(
    manifest: Manifest, place: int, inserted: bytes, removed: int
) -> None:
    data = manifest.to_bytes()
    damaged = data[:place] + inserted + data[place + removed :]
    assert parse_manifest(damaged) == python_reads(damaged)


@pytest.mark.needs("gcc", "build-essential")
@given(st.binary(max_size=200))
def test_the_boot_loader_and_python_agree_on_any_bytes(data: bytes) -> None:
    assert parse_manifest(data) == python_reads(data)
