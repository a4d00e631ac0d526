"""A device in one file: its keys, its configuration and the clock's ceiling, so that no timestamp is used twice."""

from agent.operator.backup.backup_file import Backup, decode_backup, encode_backup
from agent.operator.backup.device_files import gather_backup, restore_backup

__all__ = ["Backup", "decode_backup", "encode_backup", "gather_backup", "restore_backup"]
