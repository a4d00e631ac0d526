from node.overlay.replay import RecentMessages
from node.serialization import Broadcast
from node.streams import StreamPart
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import StreamMessage


def broadcast(number: int, partition: int = 0) -> Broadcast:
    message = StreamMessage(MessageID("stream", partition, number, 0, "0xpublisher", "chain"), "1")
    return Broadcast(message, "x" * 10)


def numbers(recent: RecentMessages, partition: int = 0) -> list[int]:
    return [each.message.message_id.timestamp for each in recent.of(StreamPart("stream", partition))]


def test_the_messages_of_a_partition_are_given_in_the_order_they_came() -> None:
    recent = RecentMessages()
    for number, partition in ((1, 0), (2, 1), (3, 0)):
        recent.add(broadcast(number, partition), 0)
    assert numbers(recent) == [1, 3]
    assert numbers(recent, 1) == [2]


def test_a_message_is_known_by_its_whole_identity() -> None:
    recent = RecentMessages()
    recent.add(broadcast(1), 0)
    recent.add(broadcast(1), 0)
    assert len(recent) == 1
    assert broadcast(1).message.message_id in recent
    assert broadcast(1, 1).message.message_id not in recent


def test_old_messages_are_dropped() -> None:
    recent = RecentMessages(max_age_s=10)
    recent.add(broadcast(1), 0)
    recent.add(broadcast(2), 10)
    assert numbers(recent) == [1, 2]
    recent.add(broadcast(3), 10.1)
    assert numbers(recent) == [2, 3]
    assert broadcast(1).message.message_id not in recent


def test_number_and_size_are_bounded() -> None:
    few, small = RecentMessages(max_messages=2), RecentMessages(max_characters=25)
    for number in range(5):
        few.add(broadcast(number), 0)
        small.add(broadcast(number), 0)
    assert numbers(few) == numbers(small) == [3, 4]
