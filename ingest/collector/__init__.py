"""Receives archives from devices over HTTP, stores them by SHA-256 and returns signed receipts.

    claim ──► allow-list ──► upload, resumable ──► check every byte ──► landing area ──► receipt
    signed     devices/       uploads, hidden       verify               <sha256>.hga     receipts/

Nothing is under its final name before it was checked and is durable, and no receipt exists before that. The server
itself is `ingest.collector.server.Collector`; the names below need no HTTP server.
"""

from ingest.collector.devices import AllowList, Device
from ingest.collector.errors import ConfigError, UploadRefused
from ingest.collector.intake import Intake
from ingest.collector.keys import PublicKeys, create_keys, load_decryption_key, load_public_keys, load_signing_key
from ingest.collector.settings import Folders, Limits, Settings, TlsFiles

__all__ = [
    "AllowList",
    "ConfigError",
    "Device",
    "Folders",
    "Intake",
    "Limits",
    "PublicKeys",
    "Settings",
    "TlsFiles",
    "UploadRefused",
    "create_keys",
    "load_decryption_key",
    "load_public_keys",
    "load_signing_key",
]
