from agent.archive.reading import LaneRecords
from agent.journal import Record


def journal_record(lane: int, position: int, readings: int = 1) -> Record:
    return Record(position, lane, b"%d" % position, "chain", 1, 0, 2, readings)


class Source:
    """Lanes with records; each call returns two of them."""

    def __init__(self, **lanes: list[Record]) -> None:
        self.lanes = {int(name.removeprefix("lane_")): list(records) for name, records in lanes.items()}
        self.is_closing = False

    def read(self, lane: int) -> list[Record] | None:
        if self.is_closing:
            return None
        taken, self.lanes[lane] = self.lanes[lane][:2], self.lanes[lane][2:]
        return taken


def test_lanes_are_read_one_after_the_other_up_to_their_limits() -> None:
    source = Source(
        lane_0=[journal_record(0, position) for position in range(5)],
        lane_3=[journal_record(3, 0, readings=4), journal_record(3, 4)],
    )
    records = LaneRecords(source.read, {3: 5, 0: 3})
    read = [(record.lane, record.position, record.readings) for record in records]
    assert read == [(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1), (3, 0, 4), (3, 4, 1)]
    assert records.up_to == {0: 4, 3: 5}
    assert len(source.lanes[0]) == 1  # committed since: for the next archive


def test_a_lane_is_read_to_its_end_though_its_last_readings_are_lost() -> None:
    records = LaneRecords(Source(lane_0=[journal_record(0, 2)]).read, {0: 9})
    assert [record.position for record in records] == [2]
    assert records.up_to == {0: 9}


def test_a_lane_counts_as_read_only_when_all_of_its_records_were_consumed() -> None:
    records = LaneRecords(Source(lane_0=[journal_record(0, position) for position in range(2)]).read, {0: 2})
    iterator = iter(records)
    next(iterator)
    assert (next(iterator).position, records.up_to) == (1, {})
    assert next(iterator, None) is None
    assert records.up_to == {0: 2}


def test_an_early_end_says_nothing_about_the_rest() -> None:
    source = Source(lane_0=[journal_record(0, position) for position in range(4)])
    records = LaneRecords(source.read, {0: 4})
    iterator = iter(records)
    next(iterator)
    source.is_closing = True
    assert [record.position for record in iterator] == [1]
    assert records.up_to == {}
