import hypothesis.strategies as st
from hypothesis import given

from firmware_bridge.received import MAX_BOOTS, Boot, ReceivedByBoot, ReceivedRecords, SampleName
from protocol.link import Record, Sample

BOOT = Boot.of("greenhouse", b"12345678")


def record(rseq: int, *values: int | None) -> Record:
    return Record(rseq=rseq, uptime_ms=rseq, samples=tuple(Sample(at, value) for at, value in enumerate(values)))


def test_a_record_is_delivered_once_and_durable_when_all_its_samples_are() -> None:
    records = ReceivedRecords()
    assert records.accept(record(5, 1, None, 3)) == [0, 2]
    assert records.accept(record(5, 1, None, 3)) == []
    assert records.committed_rseq == 5
    records.commit(5, {0})
    assert records.committed_rseq == 5
    records.commit(5, {2})
    assert records.committed_rseq == 6


def test_a_record_without_any_value_has_nothing_to_commit() -> None:
    records = ReceivedRecords()
    assert records.accept(record(0, None)) == []
    assert records.committed_rseq == 1


def test_records_that_are_skipped_were_lost_on_the_device() -> None:
    records = ReceivedRecords()
    for rseq in (7, 8, 12):
        records.accept(record(rseq, 1))
    assert records.missing == 3


def test_after_a_restart_only_what_was_not_durable_is_taken_again() -> None:
    tokens = {(rseq, sample): SampleName(BOOT, rseq, sample).token for rseq in (5, 6, 7) for sample in (0, 1)}
    received = ReceivedByBoot()
    received.recall(tokens.values(), {tokens[6, 1]})
    records = received.of(BOOT)
    assert records.committed_rseq == 6
    assert records.accept(record(5, 1, 2)) == []
    assert records.accept(record(6, 1, 2)) == [1]
    assert records.accept(record(7, 1, 2)) == []
    assert records.accept(record(8, 1, 2)) == [0, 1]
    received.commit([tokens[6, 1]])
    assert records.committed_rseq == 8


def test_what_the_device_does_not_have_any_more_is_not_waited_for() -> None:
    received = ReceivedByBoot()
    token = SampleName(BOOT, 3, 0).token
    received.recall([token], [token])
    assert received.of(BOOT).committed_rseq == 3
    received.of(BOOT).accept(record(9, 1))
    received.commit([SampleName(BOOT, 9, 0).token])
    assert received.of(BOOT).committed_rseq == 10


def test_tokens_that_never_were_any_are_left_alone() -> None:
    received = ReceivedByBoot()
    of_boot = received.of(BOOT)
    assert of_boot.accept(record(5, 1, 2)) == [0, 1]
    never = [-1, 1 << 400, SampleName(BOOT, 6, 0).token, SampleName(Boot.of("another", b"12345678"), 5, 0).token]
    received.commit(never)
    assert of_boot.committed_rseq == 5
    assert of_boot.accept(record(5, 1, 2)) == [], "it is still under way"
    received.commit([never[0], SampleName(BOOT, 5, 0).token, never[1], SampleName(BOOT, 5, 1).token])
    assert of_boot.committed_rseq == 6, "those among them that are tokens count"


def test_what_an_earlier_process_noted_and_is_no_token_is_not_recalled() -> None:
    received = ReceivedByBoot()
    token = SampleName(BOOT, 3, 0).token
    received.recall([-1, token, 1 << 400], [-1])
    assert received.of(BOOT).committed_rseq == 4
    assert received.of(BOOT).accept(record(3, 1)) == []


def test_few_boots_are_remembered() -> None:
    received = ReceivedByBoot()
    first = received.of(BOOT)
    for number in range(MAX_BOOTS):
        received.of(Boot.of("greenhouse", number.to_bytes(8)))
    assert received.of(BOOT) is not first


@given(st.binary(min_size=8, max_size=8), st.integers(0, 2**32 - 1), st.integers(0, 63))
def test_a_token_names_its_sample(boot_id: bytes, rseq: int, sample: int) -> None:
    name = SampleName(Boot.of("x", boot_id), rseq, sample)
    assert SampleName.of_token(name.token) == name


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=60))
def test_no_record_is_delivered_twice_and_none_is_acknowledged_before_it_is_durable(
    steps: list[tuple[int, bool]],
) -> None:
    """Whatever is sent again, in an order that a device can send, and whenever commits come."""
    records, handed_over, durable = ReceivedRecords(), list[int](), set[int]()
    for rseq, is_commit in steps:
        if is_commit and handed_over:
            oldest = handed_over[len(durable) % len(handed_over)]
            records.commit(oldest, {0})
            durable.add(oldest)
        elif records.accept(record(rseq, 1)):
            handed_over.append(rseq)
        assert len(handed_over) == len(set(handed_over))
        assert all(each in durable for each in handed_over if each < records.committed_rseq)
