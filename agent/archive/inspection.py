"""Opens and verifies archive files, encrypted or not, for the commands."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nacl.public import PrivateKey

from agent.archive.store import ARCHIVE_SUFFIXES
from agent.errors import ConfigError
from protocol.archive.encryption import ENVELOPE_BYTES, Decryptor, encrypted_for, is_encrypted
from protocol.archive.errors import CorruptArchive
from protocol.archive.random_access import OpenArchive, open_archive
from protocol.errors import WireError

READ_BYTES = 256 * 1024

OnProgress = Callable[[int], None]  # bytes done so far


def _ignore(_: int) -> None:
    pass


@contextmanager
def opened_archive(path: Path, collector: PrivateKey | None = None) -> Iterator[OpenArchive]:
    """The archive in the file; an encrypted one is decrypted to an unnamed temporary file first.

    Raises: WireError, ConfigError if it is encrypted and the key is missing, OSError.
    """
    with path.open("rb") as file:
        if not is_encrypted(os.pread(file.fileno(), ENVELOPE_BYTES, 0)):
            yield _open(file)
            return
        if collector is None:
            raise ConfigError(f"{path}: encrypted for {_recipient(file)}; name the collector's key with --open-with")
        with tempfile.TemporaryFile() as plain:
            _decrypt(file, plain, collector)
            yield _open(plain)


def encryption_recipient(path: Path) -> str | None:
    """The public key that a file is encrypted for, or None if it is not encrypted. Raises: WireError, OSError."""
    with path.open("rb") as file:
        return _recipient(file) if is_encrypted(os.pread(file.fileno(), ENVELOPE_BYTES, 0)) else None


def _recipient(file: BinaryIO) -> str:
    return bytes(encrypted_for(os.pread(file.fileno(), ENVELOPE_BYTES, 0))).hex()


def _open(file: BinaryIO) -> OpenArchive:
    file.flush()
    return open_archive(lambda offset, count: os.pread(file.fileno(), count, offset), os.fstat(file.fileno()).st_size)


def _decrypt(file: BinaryIO, plain: BinaryIO, collector: PrivateKey) -> None:
    decryptor = Decryptor(collector)
    while piece := file.read(READ_BYTES):
        for chunk in decryptor.feed(piece):
            plain.write(chunk)
    plain.write(decryptor.finish())


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of checking a whole archive file."""

    path: Path
    size_bytes: int
    device: bytes | None = None
    readings: int = 0  # that are good
    messages: int = 0  # that hold them
    damaged_readings: int = 0  # in damaged blocks
    problems: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        return not self.problems


def verify_file(path: Path, collector: PrivateKey | None = None, on_progress: OnProgress = _ignore) -> Verdict:
    """Check name, header, binding, signature, manifest, every block and the totals. Raises: ConfigError, OSError."""
    problems = _name_problems(path)
    size_bytes = path.stat().st_size
    try:
        with opened_archive(path, collector) as archive:
            return _verify_blocks(path, size_bytes, archive, problems, on_progress)
    except WireError as error:
        return Verdict(path=path, size_bytes=size_bytes, problems=(*problems, str(error)))


def _verify_blocks(
    path: Path, size_bytes: int, archive: OpenArchive, problems: list[str], on_progress: OnProgress
) -> Verdict:
    readings = messages = 0
    for found in archive.inspect():
        if isinstance(found, CorruptArchive):
            problems.append(str(found))
        else:
            readings, messages = readings + found.entry.readings, messages + found.entry.records
            on_progress(found.entry.offset + found.entry.frame_bytes)
    return Verdict(
        path=path,
        size_bytes=size_bytes,
        device=archive.header.binding.address,
        readings=readings,
        messages=messages,
        damaged_readings=archive.manifest.readings - readings,
        problems=tuple(problems),
    )


def _name_problems(path: Path) -> list[str]:
    """A file with an archive's suffix must be named by its SHA-256; other names are not checked."""
    if path.suffix not in ARCHIVE_SUFFIXES:
        return []
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return [] if digest == path.stem else [f"the name is not the file's SHA-256, {digest}"]
