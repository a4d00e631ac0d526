"""Archives on the disk: written from the journal, kept until a receipt, read back for whoever asks."""

from agent.archive.archiver import Archiver, ArchiverSettings
from agent.archive.directory import Directory, NewFile, RealDirectory
from agent.archive.reading import Verdict, opened_archive, sealed_recipient, verify_file
from agent.archive.source import JournalLoss, JournalRecord, to_archive_loss, to_archive_record
from agent.archive.state import ArchiveState, KeptArchive
from agent.archive.store import ArchiveStore

__all__ = [
    "ArchiveState",
    "ArchiveStore",
    "Archiver",
    "ArchiverSettings",
    "Directory",
    "JournalLoss",
    "JournalRecord",
    "KeptArchive",
    "NewFile",
    "RealDirectory",
    "Verdict",
    "opened_archive",
    "sealed_recipient",
    "to_archive_loss",
    "to_archive_record",
    "verify_file",
]
