"""Archives and checkpoints into a directory, such as a USB stick.

Archives are copied whole; receipts that appear there as `<sha256>.receipt` are used like any other. Beside them is the
newest checkpoint of the device log.
"""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

from agent.archive.settings import ShipConfig
from agent.archive.state import KeptArchive
from agent.errors import LinkDown
from protocol.archive.receipt import Receipt
from protocol.devicelog.checkpoint import Checkpoint
from protocol.errors import WireError
from protocol.shipping import MAX_RECEIPT_BYTES, checkpoint_name
from runtime.durable_files import make_directory, replace_file, sync_directory

RECEIPT_SUFFIX: Final = ".receipt"
CHECKPOINT_MODE: Final = 0o644  # it is read where the stick is plugged in next


def mount_problem(config: ShipConfig) -> str:
    """Why nothing is written to the directory: with `require_mount`, a stick that is not mounted. Else empty."""
    directory = config.directory
    if directory is None or not config.require_mount:
        return ""
    if any(each.is_mount() for each in (directory, *directory.parents[:-1])):
        return ""
    return f"{directory}: no file system is mounted there, and ship.require_mount is set; mount the stick or disk"


def check_mount(config: ShipConfig) -> None:
    """Raises: LinkDown."""
    if problem := mount_problem(config):
        raise LinkDown(problem)


def deliver_to_directory(path: Path, archive: KeptArchive, directory: Path) -> Receipt | None:
    """Copy it if it is not there; give the receipt if one has come. Raises: OSError."""
    target = directory / archive.file_name
    receipt = directory / f"{archive.sha256.hex()}{RECEIPT_SUFFIX}"
    if receipt.exists():
        with contextlib.suppress(WireError), receipt.open("rb") as file:  # half written, or not for us: later again
            return Receipt.from_bytes(file.read(MAX_RECEIPT_BYTES + 1))
    if not target.exists():
        make_directory(directory)
        _copy(path, target)
    return None


def write_checkpoint(checkpoint: Checkpoint, directory: Path) -> None:
    """Replace the checkpoint of this log in the directory. Raises: OSError."""
    make_directory(directory)
    replace_file(
        directory / checkpoint_name(checkpoint.device, checkpoint.log), checkpoint.to_bytes(), mode=CHECKPOINT_MODE
    )


def _copy(path: Path, target: Path) -> None:
    partial = target.with_name(f".{target.name}.part")
    with path.open("rb") as source, partial.open("wb") as copy:
        shutil.copyfileobj(source, copy)
        copy.flush()
        os.fsync(copy.fileno())
    partial.replace(target)
    sync_directory(target.parent)
