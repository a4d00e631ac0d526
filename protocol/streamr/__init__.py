"""The Streamr protocol: every message of its stream, control, network and tracker layers as values.

Each layer has one function that reads text from the network, and every value writes itself with
`serialize()`. The messages of the network and tracker layers share their names, so they stay in their
modules, `network` and `tracker`; the two sides of the key exchange are in `key_exchange`.
"""

from typing import TYPE_CHECKING

from protocol.ethereum.hashing import checksum_address, is_address
from protocol.ethereum.signer import Signer
from protocol.on_use import names_on_use

if TYPE_CHECKING:
    from protocol.streamr import key_exchange, network, tracker
    from protocol.streamr.chain_writer import ChainWriter
    from protocol.streamr.control import (
        BroadcastMessage,
        ControlMessage,
        ControlType,
        ErrorResponse,
        LegacyPublishRequest,
        LegacyResendRequest,
        ProxyConnectionRequest,
        ProxyConnectionResponse,
        PublishRequest,
        ResendFromRequest,
        ResendLastRequest,
        ResendRangeRequest,
        ResendResponseNoResend,
        ResendResponseResending,
        ResendResponseResent,
        SubscribeRequest,
        SubscribeResponse,
        UnicastMessage,
        UnsubscribeRequest,
        UnsubscribeResponse,
        parse_control_message,
    )
    from protocol.streamr.encryption import Decrypted, decrypt_message, encrypt_message
    from protocol.streamr.group_key import GroupKey
    from protocol.streamr.group_key_codec import parse_group_key_message
    from protocol.streamr.group_key_messages import (
        DraftGroupKeyReset,
        DraftGroupKeyRotate,
        EncryptedKey,
        GroupKeyAnnounce,
        GroupKeyErrorResponse,
        GroupKeyMessage,
        GroupKeyRequest,
        GroupKeyResponse,
        KeyRange,
        TimedKey,
        TimedKeyErrorResponse,
        TimedKeyRequest,
        TimedKeyReset,
        TimedKeyResponse,
    )
    from protocol.streamr.ids import MessageID, MessageRef, next_message_ref
    from protocol.streamr.network import NetworkMessage, parse_network_message
    from protocol.streamr.ordering import Delivery, GapLost, GapRequest, Orderer, OrderingEvent, OrderingRules
    from protocol.streamr.partitioner import partition_of
    from protocol.streamr.rsa import RsaKeyPair, RsaPublicKey
    from protocol.streamr.signing import Verdict, Verifier, recover_signer, sign_message, signed_payload, verify
    from protocol.streamr.stream_codec import parse_stream_message
    from protocol.streamr.stream_message import (
        ContentType,
        EncryptedGroupKey,
        EncryptionType,
        LegacyOffsets,
        MessageType,
        SignatureType,
        StreamMessage,
    )
    from protocol.streamr.tracker import TrackerMessage, parse_tracker_message

__all__ = [
    "BroadcastMessage",
    "ChainWriter",
    "ContentType",
    "ControlMessage",
    "ControlType",
    "Decrypted",
    "Delivery",
    "DraftGroupKeyReset",
    "DraftGroupKeyRotate",
    "EncryptedGroupKey",
    "EncryptedKey",
    "EncryptionType",
    "ErrorResponse",
    "GapLost",
    "GapRequest",
    "GroupKey",
    "GroupKeyAnnounce",
    "GroupKeyErrorResponse",
    "GroupKeyMessage",
    "GroupKeyRequest",
    "GroupKeyResponse",
    "KeyRange",
    "LegacyOffsets",
    "LegacyPublishRequest",
    "LegacyResendRequest",
    "MessageID",
    "MessageRef",
    "MessageType",
    "NetworkMessage",
    "Orderer",
    "OrderingEvent",
    "OrderingRules",
    "ProxyConnectionRequest",
    "ProxyConnectionResponse",
    "PublishRequest",
    "ResendFromRequest",
    "ResendLastRequest",
    "ResendRangeRequest",
    "ResendResponseNoResend",
    "ResendResponseResending",
    "ResendResponseResent",
    "RsaKeyPair",
    "RsaPublicKey",
    "SignatureType",
    "Signer",
    "StreamMessage",
    "SubscribeRequest",
    "SubscribeResponse",
    "TimedKey",
    "TimedKeyErrorResponse",
    "TimedKeyRequest",
    "TimedKeyReset",
    "TimedKeyResponse",
    "TrackerMessage",
    "UnicastMessage",
    "UnsubscribeRequest",
    "UnsubscribeResponse",
    "Verdict",
    "Verifier",
    "checksum_address",
    "decrypt_message",
    "encrypt_message",
    "is_address",
    "key_exchange",
    "network",
    "next_message_ref",
    "parse_control_message",
    "parse_group_key_message",
    "parse_network_message",
    "parse_stream_message",
    "parse_tracker_message",
    "partition_of",
    "recover_signer",
    "sign_message",
    "signed_payload",
    "tracker",
    "verify",
]

_MODULES = (
    "ids",
    "stream_message",
    "chain_writer",
    "stream_codec",
    "signing",
    "partitioner",
    "group_key",
    "rsa",
    "encryption",
    "control",
    "ordering",
    "group_key_messages",
    "group_key_codec",
    "network",
    "tracker",
    "key_exchange",
)
if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__, _MODULES, __all__)
