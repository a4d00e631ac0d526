"""The device's identity: its keys and the file that holds them.

The keys that it shares with readers of encrypted streams are in `agent.keys.group_keys`, imported where there are any.
"""

from agent.keys.device_keys import DeviceKeys, binding_as_json
from agent.keys.key_store import (
    create_key_file,
    find_key_file,
    load_keys,
    read_binding,
    read_key_file,
    replace_key_file,
)
from agent.keys.passphrase import new_passphrase_from, passphrase_from
from agent.keys.secret import Secret

__all__ = [
    "DeviceKeys",
    "Secret",
    "binding_as_json",
    "create_key_file",
    "find_key_file",
    "load_keys",
    "new_passphrase_from",
    "passphrase_from",
    "read_binding",
    "read_key_file",
    "replace_key_file",
]
