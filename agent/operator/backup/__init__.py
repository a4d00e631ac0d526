"""Backup and restore of a device: its keys, its configuration and the clock ceiling, in one encrypted file."""

from agent.operator.backup.backup_file import Backup, decode_backup, encode_backup
from agent.operator.backup.device_files import gather_backup, restore_backup

__all__ = ["Backup", "decode_backup", "encode_backup", "gather_backup", "restore_backup"]
