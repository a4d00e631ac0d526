from agent.publish.contract import run_of
from agent.publish.feed import Window
from tests.support.publish_records import record


def test_only_the_unbroken_run_is_reported() -> None:
    window = Window()
    window.add(record(position) for position in range(5))
    for position in (0, 1, 3):
        window.settle(0, position, position)
    assert window.take_settled() == {0: 1}
    assert window.take_settled() == {}
    window.settle(0, 2, 2)
    assert window.take_settled() == {0: 3}


def test_a_run_is_settled_at_once_whatever_of_it_is_not_there() -> None:
    """Positions may be missing: records were shed, thinned out or damaged."""
    window = Window()
    window.add(record(position) for position in (3, 5, 6, 9, 10))
    window.settle(0, 5, 5)
    assert window.in_flight_records(0, 4, 9) == [record(6), record(9)]
    assert window.settle(0, 4, 9) == [record(6), record(9)]
    assert window.in_flight == 2
    assert window.take_settled() == {}
    assert window.settle(0, 0, 3) == [record(3)]
    assert window.take_settled() == {0: 9}
    assert window.only_one() == record(10)


def test_a_pack_is_settled_as_a_whole_and_acknowledged_by_its_last_reading() -> None:
    window = Window()
    pack, single, other = record(0, readings=250), record(250), record(251, readings=3)
    window.add([pack, single, other])
    assert window.in_flight == 3
    assert window.settle(*run_of([single])) == [single]
    assert window.take_settled() == {}
    assert window.settle(*run_of([pack])) == [pack]
    assert window.take_settled() == {0: 250}
    assert window.settle(*run_of([other])) == [other]
    assert window.take_settled() == {0: 253}


def test_lanes_do_not_wait_for_each_other() -> None:
    window = Window()
    window.add([record(0), record(0, lane=3), record(1, lane=3)])
    window.settle(3, 0, 0)
    assert window.take_settled() == {3: 0}


def test_a_proof_that_comes_twice_or_from_nowhere_changes_nothing() -> None:
    window = Window()
    window.add([record(0), record(1)])
    assert window.settle(0, 0, 0)
    assert not window.settle(0, 0, 0)
    assert not window.settle(0, 9, 9)
    assert not window.settle(7, 0, 0)
    assert window.in_flight == 1


def test_what_was_settled_before_the_link_was_lost_is_not_sent_again() -> None:
    window = Window()
    window.add(record(position) for position in range(4))
    window.settle(0, 2, 2)
    window.disconnect()
    assert window.in_flight == 0
    assert [each.position for each in window.add(record(position) for position in range(4))] == [0, 1, 3]
    for position in (0, 1):
        window.settle(0, position, position)
    assert window.take_settled() == {0: 2}


def test_records_that_were_shed_meanwhile_are_forgotten() -> None:
    window = Window()
    window.add(record(position) for position in range(3))
    window.settle(0, 1, 1)
    window.disconnect()
    assert window.add([record(2)]) == [record(2)]
    window.settle(0, 2, 2)
    assert window.take_settled() == {0: 2}


def test_the_only_record_under_way_is_known() -> None:
    window = Window()
    assert window.only_one() is None
    window.add([record(4), record(5)])
    assert window.only_one() is None
    window.settle(0, 4, 4)
    assert window.only_one() == record(5)


def test_a_record_is_settled_with_all_its_readings() -> None:
    window = Window()
    window.add([record(0), record(1)._replace(readings=250), record(251)])
    window.settle(0, 0, 1)
    assert window.take_settled() == {0: 250}
    window.settle(0, 251, 251)
    assert window.take_settled() == {0: 251}
