"""The format of the key file.

A file envelope `HGKEYS` holds one CBOR map: `device`, `archive_key`, `binding` (public); `salt`, `opslimit`,
`memlimit`; `secrets`. The checksum of the envelope distinguishes damage from a wrong passphrase.

Without a passphrase, `salt` is empty, both limits are 0 and `secrets` is a CBOR map of `identity`, `archive` and
`vault`, 32 bytes each. With one, that map is in a libsodium secret box (nonce first), under the Argon2id hash of the
passphrase.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from agent.errors import ConfigError
from agent.keys.device_keys import DeviceKeys, PublicPart
from agent.keys.secret import Secret
from protocol import strict_cbor
from protocol.binding import Binding
from protocol.errors import Corrupt
from protocol.file_envelope import FileEnvelope
from protocol.strict_cbor import CborBounds, field

if TYPE_CHECKING:
    from nacl.secret import SecretBox  # libsodium is for files with a passphrase, and loaded with the first of them

SALT_BYTES = 16  # of Argon2id
NONCE_BYTES = 24  # of a secret box
MAX_KEY_FILE_BYTES = 4096
ENVELOPE = FileEnvelope(name="key file", magic=b"HGKEYS", version=2, max_bytes=MAX_KEY_FILE_BYTES)

_BOUNDS = CborBounds(max_bytes=MAX_KEY_FILE_BYTES, max_items=32, max_depth=1)
_SECRETS = ("identity", "archive", "vault")
_PUBLIC = ("device", "archive_key", "binding")
_NAMES = (*_PUBLIC, "salt", "opslimit", "memlimit", "secrets")


class PassphraseCost(NamedTuple):
    """The cost of the Argon2id passphrase hash. It is stored in the file, so the default may change."""

    opslimit: int
    memlimit_bytes: int


DEFAULT_COST = PassphraseCost(opslimit=3, memlimit_bytes=64 * 1024 * 1024)  # about a second on a small board
MIN_COST = PassphraseCost(opslimit=1, memlimit_bytes=8192)  # libsodium's own
MAX_COST = PassphraseCost(opslimit=16, memlimit_bytes=256 * 1024 * 1024)  # the most that a file may require


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KeyFile:
    """A key file as it was read, still locked if it has a passphrase."""

    public: PublicPart
    salt: bytes
    cost: PassphraseCost
    box: Secret

    @property
    def has_passphrase(self) -> bool:
        return bool(self.salt)

    @property
    def binding(self) -> Binding:
        """Raises: Corrupt if it is signed by another device."""
        return self.public.binding

    def unlock(self, passphrase: Secret | None) -> DeviceKeys:
        """Raises: ConfigError for a missing or wrong passphrase, Corrupt if the secrets are of another device."""
        return _keys_from_cbor(self._open_box(passphrase), self.public)

    def _open_box(self, passphrase: Secret | None) -> Secret:
        if not self.has_passphrase:
            return self.box
        if passphrase is None:
            raise ConfigError("the key file is protected by a passphrase, and none was given")
        from nacl.exceptions import CryptoError

        try:
            return Secret(passphrase_box(passphrase, self.salt, self.cost).decrypt(self.box.reveal()))
        except CryptoError:
            raise ConfigError("wrong passphrase") from None


def encode_key_file(
    keys: DeviceKeys,
    passphrase: Secret | None,
    random_bytes: Callable[[int], bytes],
    cost: PassphraseCost = DEFAULT_COST,
) -> Secret:
    """The bytes to write: a secret themselves if there is no passphrase."""
    if passphrase is None:
        return _assemble(keys.binding, b"", PassphraseCost(0, 0), _secrets_to_cbor(keys))
    salt, nonce = random_bytes(SALT_BYTES), random_bytes(NONCE_BYTES)
    box = passphrase_box(passphrase, salt, cost).encrypt(_secrets_to_cbor(keys).reveal(), nonce)
    return _assemble(keys.binding, salt, cost, Secret(bytes(box)))


def decode_key_file(data: bytes) -> KeyFile:
    """Raises: WireError for a file that is damaged, foreign or of another version."""
    body = ENVELOPE.unwrap(data)
    with strict_cbor.invalid_is_corrupt("key file"):
        found = strict_cbor.fields(strict_cbor.decode(body, _BOUNDS), *_NAMES)
        cost = PassphraseCost(field(found["opslimit"], int), field(found["memlimit"], int))
        salt = field(found["salt"], bytes)
        if len(salt) not in (0, SALT_BYTES):
            raise Corrupt(f"salt of {len(salt)} bytes")
        if salt and not is_acceptable_cost(cost):
            raise Corrupt(
                f"a passphrase hash of {cost.opslimit} passes over {cost.memlimit_bytes} bytes is out of bounds"
            )
        public = PublicPart(*(field(found[name], bytes) for name in _PUBLIC))
        return KeyFile(public=public, salt=salt, cost=cost, box=Secret(field(found["secrets"], bytes)))


def is_acceptable_cost(cost: PassphraseCost) -> bool:
    """Whether a file may require this cost."""
    return (
        MIN_COST.opslimit <= cost.opslimit <= MAX_COST.opslimit
        and MIN_COST.memlimit_bytes <= cost.memlimit_bytes <= MAX_COST.memlimit_bytes
    )


def _assemble(binding: Binding, salt: bytes, cost: PassphraseCost, box: Secret) -> Secret:
    values = (binding.address, binding.archive_key, binding.signature, salt, *cost, box.reveal())
    return Secret(ENVELOPE.wrap(strict_cbor.encode(dict(zip(_NAMES, values, strict=True)))))


def _secrets_to_cbor(keys: DeviceKeys) -> Secret:
    return Secret(strict_cbor.encode({name: secret.reveal() for name, secret in keys.secrets().items()}))


def _keys_from_cbor(plain: Secret, stated: PublicPart) -> DeviceKeys:
    with strict_cbor.invalid_is_corrupt("key file's secrets"):
        found = _SecretFields(strict_cbor.fields(strict_cbor.decode(plain.reveal(), _BOUNDS), *_SECRETS))
        return DeviceKeys(**{name: found.take(name) for name in _SECRETS}, stated=stated)


class _SecretFields:
    """A decoded map of secrets, whose repr does not reveal them."""

    def __init__(self, values: dict[str, strict_cbor.CborValue]) -> None:
        self._values = values

    def take(self, name: str) -> Secret:
        return Secret(field(self._values[name], bytes))


def passphrase_box(passphrase: Secret, salt: bytes, cost: PassphraseCost) -> "SecretBox":
    """A box that encrypts and decrypts with a passphrase."""
    from nacl import pwhash
    from nacl.secret import SecretBox

    return SecretBox(
        pwhash.argon2id.kdf(
            SecretBox.KEY_SIZE, passphrase.reveal(), salt, opslimit=cost.opslimit, memlimit=cost.memlimit_bytes
        )
    )
