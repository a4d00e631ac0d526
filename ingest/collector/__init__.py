"""Takes archives from devices over HTTP, keeps them by the SHA-256 of their bytes, and answers with signed receipts.

    claim ──► allow-list ──► upload, resumable ──► check every byte ──► landing area ──► receipt
    signed     devices/       uploads, hidden       verify               <sha256>.hga     receipts/

Nothing is under its final name before it was checked and is durable, and no receipt exists before that. The server
itself is `ingest.collector.server.Collector`; it is not among the names below, since it alone needs h11.
"""

from ingest.collector.devices import AllowList, Device
from ingest.collector.errors import ConfigError, Refused
from ingest.collector.intake import Intake
from ingest.collector.keys import PublicKeys, create_keys, load_public_keys, load_sealing_key, load_signing_key
from ingest.collector.settings import Folders, Limits, Settings, TlsFiles

__all__ = [
    "AllowList",
    "ConfigError",
    "Device",
    "Folders",
    "Intake",
    "Limits",
    "PublicKeys",
    "Refused",
    "Settings",
    "TlsFiles",
    "create_keys",
    "load_public_keys",
    "load_sealing_key",
    "load_signing_key",
]
