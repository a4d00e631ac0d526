import asyncio
import logging
from pathlib import Path

import pytest

from agent.keys import DeviceKeys, Secret
from agent.keys.group_keys import GroupKeyStore
from agent.pack.encryption import EncryptionRules, StreamEncryption, is_rekey_requested, rekey_on_request, request_rekey
from agent.pack.wrap import EncryptedContent
from protocol.ethereum.signer import Signer
from protocol.streamr.group_keys.codec import parse_group_key_message
from protocol.streamr.group_keys.encryption import decrypt_message, unwrap_next_key
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.key_subscriber import KeysReceived, KeySubscriber
from protocol.streamr.group_keys.messages import GroupKeyErrorResponse
from protocol.streamr.group_keys.rsa import RsaKeyPair
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import EncryptionType, StreamMessage
from protocol.streamr.stream_message.signing import sign_message
from tests.support.patience import PATIENCE_S

NOW_MS = 1_700_000_000_000
STREAM = "0xdevice/secret"
KEYS = DeviceKeys(identity=Secret(b"\x07" * 32), archive=Secret(b"\x08" * 32), vault=Secret(b"\x09" * 32))
DEVICE, READER, UNKNOWN = Signer(b"\x07" * 32), Signer(b"\x21" * 32), Signer(b"\x22" * 32)
RULES = EncryptionRules(readers=frozenset({READER.address}), rotate_after_messages=3, rotate_after_s=100)
STREAM, OTHER = "0xdevice/secret", "0xdevice/other"


@pytest.fixture(scope="module")
def rsa() -> RsaKeyPair:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return RsaKeyPair(rsa.generate_private_key(65537, 2048))  # the smallest taken: it is made in no time


@pytest.fixture
def store(tmp_path: Path) -> GroupKeyStore:
    return GroupKeyStore(tmp_path / "keys", KEYS)


@pytest.fixture
def encryption(store: GroupKeyStore) -> StreamEncryption:
    return StreamEncryption(DEVICE, store, {STREAM: RULES})


def lock(encryption: StreamEncryption, count: int, now_ms: int = NOW_MS) -> list[EncryptedContent]:
    return [encryption.encrypt_for(STREAM)(f'{{"n":{n}}}', now_ms) for n in range(count)]


def message_of(locked: EncryptedContent, sequence: int = 0) -> StreamMessage:
    message_id = MessageID(STREAM, 0, NOW_MS, sequence, DEVICE.address, "c")
    plain = StreamMessage(message_id, locked.content)
    return sign_message(
        plain.replace(
            encryption_type=EncryptionType.AES, group_key_id=locked.group_key_id, new_group_key=locked.new_group_key
        ),
        DEVICE,
    )


def test_a_locked_content_opens_with_the_key_in_the_store(encryption: StreamEncryption, store: GroupKeyStore) -> None:
    (locked,) = lock(encryption, 1)
    key = store.current(STREAM)
    assert key is not None
    assert locked.group_key_id == key.key_id
    wire_key = GroupKey(key.key_id, key.secret.reveal())
    assert decrypt_message(message_of(locked), wire_key).content == '{"n":0}'


def test_the_key_rotates_by_count_and_is_delivered(encryption: StreamEncryption, store: GroupKeyStore) -> None:
    locked = lock(encryption, 8)
    assert [each.new_group_key is not None for each in locked] == [n % 3 == 2 for n in range(8)]
    ids = [each.group_key_id for each in locked]
    assert ids[:3] == [ids[0]] * 3
    assert ids[3:6] == [ids[3]] * 3
    first, second = store.history(STREAM)[:2]
    assert [first.key_id, second.key_id] == [ids[0], ids[3]]
    handed_over = unwrap_next_key(locked[2].new_group_key, GroupKey(first.key_id, first.secret.reveal()))
    assert handed_over == GroupKey(second.key_id, second.secret.reveal())


def test_the_key_rotates_by_time(encryption: StreamEncryption) -> None:
    assert lock(encryption, 1)[0].new_group_key is None
    (later,) = lock(encryption, 1, NOW_MS + 100_000)
    assert later.new_group_key is not None
    assert lock(encryption, 1, NOW_MS + 100_001)[0].group_key_id == later.new_group_key.group_key_id


def test_the_key_outlives_a_restart(encryption: StreamEncryption, store: GroupKeyStore) -> None:
    (before,) = lock(encryption, 1)
    (after,) = lock(StreamEncryption(DEVICE, store, {STREAM: RULES}), 1)
    assert before.group_key_id == after.group_key_id
    assert before.content != after.content, "the same initial counter twice"


def test_the_last_key_made_outlives_a_restart_though_the_clock_was_set_back(
    encryption: StreamEncryption, store: GroupKeyStore
) -> None:
    """Or who was kept out by rekeying could read again."""
    (before,) = lock(encryption, 1)
    encryption.rekey(STREAM, NOW_MS - 50_000)
    (rekeyed,) = lock(encryption, 1, NOW_MS - 50_000)
    assert rekeyed.group_key_id != before.group_key_id
    (after,) = lock(StreamEncryption(DEVICE, store, {STREAM: RULES}), 1)
    assert after.group_key_id == rekeyed.group_key_id


def test_a_key_from_a_clock_that_was_far_ahead_rotates_too(encryption: StreamEncryption) -> None:
    lock(encryption, 1, NOW_MS + 10**11)
    assert lock(encryption, 1)[0].new_group_key is not None


def request(signer: Signer, rsa: RsaKeyPair, key_id: str) -> tuple[KeySubscriber, StreamMessage]:
    subscriber = KeySubscriber(signer, "chain", rsa)
    asked = subscriber.request_keys(DEVICE.address, STREAM, "request", NOW_MS, group_key_ids=[key_id])
    assert asked is not None
    return subscriber, asked


def test_a_reader_on_the_list_is_given_the_key(encryption: StreamEncryption, rsa: RsaKeyPair) -> None:
    (locked,) = lock(encryption, 1)
    subscriber, asked = request(READER, rsa, locked.group_key_id)
    (answer,) = encryption.answer(asked, NOW_MS)
    (received,) = subscriber.receive(answer)
    assert isinstance(received, KeysReceived)
    assert decrypt_message(message_of(locked), received.keys[0]).content == '{"n":0}'


def test_a_key_that_is_unknown_is_reported_beside_those_that_are_given(
    encryption: StreamEncryption, rsa: RsaKeyPair
) -> None:
    (locked,) = lock(encryption, 1)
    subscriber = KeySubscriber(READER, "chain", rsa)
    wanted = ["unknown", locked.group_key_id]
    asked = subscriber.request_keys(DEVICE.address, STREAM, "request", NOW_MS, group_key_ids=wanted)
    assert asked is not None
    answer, error = encryption.answer(asked, NOW_MS)
    assert any(isinstance(event, KeysReceived) for event in subscriber.receive(answer))
    report = parse_group_key_message(error.message_type, error.content)
    assert isinstance(report, GroupKeyErrorResponse)
    assert report.group_key_ids == ("unknown",)


def test_other_addresses_are_refused(encryption: StreamEncryption, rsa: RsaKeyPair) -> None:
    (locked,) = lock(encryption, 1)
    _, asked = request(UNKNOWN, rsa, locked.group_key_id)
    (answer,) = encryption.answer(asked, NOW_MS)
    refusal = parse_group_key_message(answer.message_type, answer.content)
    assert isinstance(refusal, GroupKeyErrorResponse)


def test_what_is_no_request_gets_no_answer(encryption: StreamEncryption) -> None:
    noise = StreamMessage(MessageID(encryption.stream_id, 0, NOW_MS, 0, READER.address, "c"), "{}")
    assert encryption.answer(noise, NOW_MS) == []
    assert encryption.answer(sign_message(noise, READER), NOW_MS) == []


def test_rekeying_announces_to_those_who_may_still_read(encryption: StreamEncryption, rsa: RsaKeyPair) -> None:
    (before,) = lock(encryption, 1)
    _, asked = request(READER, rsa, before.group_key_id)
    encryption.answer(asked, NOW_MS)
    encryption.rekey(STREAM, NOW_MS + 1)
    assert len(encryption.take_announcements()) == 1
    assert encryption.take_announcements() == []
    (after,) = lock(encryption, 1)
    assert after.group_key_id != before.group_key_id
    assert after.new_group_key is None, "a former reader must not follow"


def test_rekeying_may_come_before_the_first_message(encryption: StreamEncryption) -> None:
    encryption.rekey(STREAM, NOW_MS)
    assert encryption.take_announcements() == []


def test_only_encrypted_streams_are_rekeyed(encryption: StreamEncryption) -> None:
    with pytest.raises(KeyError):
        encryption.rekey("0xdevice/open", NOW_MS)


@pytest.mark.parametrize(
    "changes", [{"readers": frozenset({"0xAB"})}, {"rotate_after_messages": 0}, {"rotate_after_s": -1}]
)
def test_rules_that_make_no_sense_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        EncryptionRules(**{"readers": frozenset(), **changes})  # type: ignore[arg-type]


def _run_until_taken(folder: Path, taken: list[str], count: int, problem: Exception | None = None) -> None:
    async def run() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def rekey(stream_id: str) -> None:
            taken.append(stream_id)
            if len(taken) >= count:
                loop.call_soon_threadsafe(done.set)
            if problem is not None:
                raise problem

        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            task = group.create_task(rekey_on_request(folder, rekey))
            await done.wait()
            await asyncio.to_thread(lambda: None)  # the thread that granted it has ended its round
            task.cancel()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.pack.encryption.CHECK_S", 0.001)


def test_each_request_is_granted_once(tmp_path: Path) -> None:
    for stream_id in (STREAM, OTHER, STREAM):
        request_rekey(tmp_path, stream_id)
    taken: list[str] = []
    _run_until_taken(tmp_path, taken, 2)
    assert sorted(taken) == sorted([STREAM, OTHER])


@pytest.mark.parametrize("problem", [KeyError(STREAM), OSError(28, "No space left on device")])
def test_a_request_that_fails_stays_and_is_reported_once(
    tmp_path: Path, problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    request_rekey(tmp_path, STREAM)
    with caplog.at_level(logging.ERROR):
        _run_until_taken(tmp_path, [], 5, problem)
    assert is_rekey_requested(tmp_path, STREAM)
    assert len(caplog.records) == 1


def test_a_file_that_is_no_request_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"\xff" * 5000)
    (tmp_path / "folder").mkdir()
    taken: list[str] = []
    _run_until_taken(tmp_path, taken, 2, KeyError("no such stream"))
    assert set(taken) == {"\ufffd" * 1024}
