import pytest

from firmware_bridge import LogReceived, StatusReceived
from firmware_bridge.received import MAX_OPEN_RECORDS
from firmware_bridge.requests import Unanswered
from protocol.link import (
    CommandResult,
    CommandStatus,
    Message,
    Record,
    Sample,
    SensorDescription,
    UpdateQuery,
    frame_of,
)
from testbed.cable import CLEAN, Faults
from tests.support.firmware_bench import UTC_MS, Bench
from tests.support.model_device import COMMANDS, SENSORS, Executed, ModelDevice

KEY = bytes(range(32))
SOON_MS = 1000.0  # within which the two find each other again


def test_a_session_is_found_at_once_and_readings_come_as_they_are_described() -> None:
    bench = Bench()
    bench.run(200)
    bench.device.measure(2150, bench.now_ms)
    bench.run(100)
    assert [up.hello.device_id for up in bench.ups] == ["model-1"]
    assert [(each.sensor, each.value) for each in bench.measured] == [(SENSORS[0], 21.5), (SENSORS[1], 2150)]


def test_a_reading_has_the_time_of_its_measurement_not_of_its_arrival() -> None:
    bench = Bench()
    bench.run(200)
    bench.device.is_lost = True
    bench.device.measure(1, bench.now_ms)
    measured_at_ms = UTC_MS + bench.now_ms
    bench.run(2000)
    bench.device.is_lost = False
    bench.run(SOON_MS)
    assert abs(bench.measured[0].taken_at_ms - measured_at_ms) <= 20


def test_received_readings_move_the_window_and_committed_ones_are_dropped_by_the_device() -> None:
    bench = Bench(commit_ms=1500)
    bench.run(200)
    for value in range(20):
        bench.device.measure(value, bench.now_ms)
    bench.run(1000)
    assert len(bench.measured) == 40, "a window of 4 does not wait for the journal"
    assert len(bench.device.queue) == 20, "and nothing is forgotten before the commit"
    bench.run(1000)
    assert not bench.device.queue


def test_a_host_whose_journal_is_stuck_takes_a_bounded_number_and_goes_on_later() -> None:
    bench = Bench(ModelDevice(queue_records=MAX_OPEN_RECORDS + 100))
    bench.is_committing = False
    bench.run(200)
    for value in range(MAX_OPEN_RECORDS + 100):
        bench.device.measure(value, bench.now_ms)
    bench.run(20_000)
    assert len(bench.measured) == 2 * MAX_OPEN_RECORDS
    bench.is_committing = True
    bench.run(3000)
    assert bench.values_of(bench.device.boot_id) == list(range(MAX_OPEN_RECORDS + 100))


@pytest.mark.parametrize(
    "faults",
    [CLEAN, Faults(bit_flips=0.001), Faults(damaged_frames=0.05), Faults(drops=0.005), Faults(garbage=0.005)],
    ids=["clean", "flips", "damaged", "drops", "garbage"],
)
@pytest.mark.parametrize("baudrate", [9600, 115200])
def test_noise_costs_time_and_not_one_reading(faults: Faults, baudrate: int) -> None:
    bench = Bench(faults=faults, baudrate=baudrate)
    bench.run(6000, measure_every_ms=200)
    bench.to_host.spoiler.faults = bench.to_device.spoiler.faults = CLEAN
    bench.run(15_000 if baudrate == 9600 else 4000)
    assert bench.values_of(bench.device.boot_id) == list(range(30))
    assert (bench.session.counters.damaged_frames > 0) == (faults != CLEAN)


def test_a_reset_of_the_device_begins_a_new_boot_and_its_readings_are_not_taken_for_old_ones() -> None:
    bench = Bench()
    bench.run(1000, measure_every_ms=100)
    first = bench.device.boot_id
    bench.device.reset(bench.now_ms)
    bench.run(SOON_MS, measure_every_ms=100)
    assert bench.values_of(first) == list(range(10))
    assert bench.values_of(bench.device.boot_id)
    assert [up.is_new_boot for up in bench.ups] == [True, True]
    assert bench.session.counters.boots == 2


@pytest.mark.parametrize("away_ms", [100, 2000, 8000])
def test_a_device_that_comes_back_is_found_within_a_second_and_nothing_is_lost(away_ms: float) -> None:
    bench = Bench()
    bench.run(1000, measure_every_ms=100)
    bench.device.is_lost = True
    bench.run(away_ms, measure_every_ms=away_ms / 5)
    bench.device.is_lost = False
    before = len(bench.measured)
    bench.run(SOON_MS)
    assert len(bench.measured) > before
    bench.run(SOON_MS)
    expected = len(bench.device.measured[bench.device.boot_id])
    assert bench.values_of(bench.device.boot_id) == list(range(expected))


def test_a_device_that_says_nothing_is_lost_after_three_seconds_and_not_before() -> None:
    bench = Bench()
    bench.run(1000)
    bench.device.is_lost = True
    bench.run(2900)
    assert not bench.losses
    bench.run(1200)
    assert [loss.reason for loss in bench.losses] == ["no frame received for 3 s"]


def test_a_host_that_is_killed_between_commit_and_acknowledgement_takes_nothing_twice() -> None:
    bench = Bench(commit_ms=30)
    bench.run(500, measure_every_ms=20)
    for _ in range(10):
        bench.kill_host()
        bench.run(310, measure_every_ms=20)
    bench.run(SOON_MS)
    expected = len(bench.device.measured[bench.device.boot_id])
    assert bench.values_of(bench.device.boot_id) == list(range(expected))


def test_records_that_the_device_had_no_room_for_are_counted() -> None:
    bench = Bench(ModelDevice(queue_records=5))
    bench.run(500, measure_every_ms=100)
    bench.device.is_lost = True
    bench.run(1000, measure_every_ms=100)
    bench.device.is_lost = False
    bench.run(2000)
    bench.run(500, measure_every_ms=100)
    assert bench.session.counters.missing_records == bench.device.dropped > 0


def test_the_clock_of_a_device_that_runs_fast_is_followed() -> None:
    bench = Bench(ModelDevice(clock_rate=1.0002))
    bench.run(120_000, measure_every_ms=10_000)
    errors_ms = [each.taken_at_ms - UTC_MS - each.uptime_ms / 1.0002 for each in bench.measured]
    assert max(map(abs, errors_ms)) < 20
    assert -260 < bench.session.clock.drift_ppm < -140


def test_a_device_is_described_once_for_all_its_sessions() -> None:
    bench = Bench()
    bench.run(500)
    bench.device.reset(bench.now_ms)
    questions = bench.device.descriptions_sent
    assert questions == len(SENSORS) + len(COMMANDS)
    bench.run(SOON_MS)
    assert len(bench.ups) == 2
    assert bench.device.descriptions_sent == questions


def test_a_device_that_describes_itself_otherwise_than_it_said_is_not_believed() -> None:
    device = ModelDevice()
    device.schema += 1
    bench = Bench(device)
    bench.run(3000)
    assert not bench.session.is_open
    assert "contradict its HELLO" in bench.session.problem


def test_a_device_other_than_the_configured_one_is_refused_by_name() -> None:
    bench = Bench(ModelDevice("other"), expected_device="model-1")
    bench.run(1000)
    assert not bench.session.is_open
    assert bench.session.problem == "another device responds: other, not model-1"


# Requests


class Answer:
    def __init__(self) -> None:
        self.outcomes: list[Message | Unanswered] = []

    def __call__(self, outcome: Message | Unanswered) -> None:
        self.outcomes.append(outcome)


@pytest.mark.parametrize("argument", [2**40, -(2**40), "x" * 5000])
def test_an_argument_that_no_frame_can_hold_is_reported_to_the_caller_only(argument: int | str) -> None:
    bench, answer, next_answer = Bench(), Answer(), Answer()
    bench.run(500)
    bench.session.call("set_led", argument, answer, bench.now_ms)
    bench.session.call("set_led", 1, next_answer, bench.now_ms)
    bench.run(1000)
    assert [type(each) for each in answer.outcomes] == [Unanswered]
    assert [type(each) for each in next_answer.outcomes] == [CommandResult]
    assert [each.argument for each in bench.device.executed] == [1]


def test_a_command_is_executed_once_however_often_it_must_be_sent() -> None:
    bench, answers = Bench(faults=Faults(bit_flips=0.003)), [Answer() for _ in range(10)]
    bench.run(5000)
    for number, answer in enumerate(answers):
        bench.session.call("set_led", number, answer, bench.now_ms, patience_ms=60_000)
    bench.run(30_000)
    assert [
        outcome.value for answer in answers for outcome in answer.outcomes if isinstance(outcome, CommandResult)
    ] == [*range(10)]
    assert [each.argument for each in bench.device.executed] == [*range(10)]
    assert bench.session.counters.repeated_requests > 0


def test_a_command_goes_on_in_the_next_session_of_the_same_boot() -> None:
    bench, answer = Bench(), Answer()
    bench.run(500)
    bench.device.is_lost = True
    bench.session.call("set_led", 1, answer, bench.now_ms, patience_ms=20_000)
    bench.run(5000)
    bench.device.is_lost = False
    bench.run(SOON_MS)
    assert [each.argument for each in bench.device.executed] == [1]
    assert answer.outcomes == [CommandResult(id=1, status=CommandStatus.DONE, value=1)]


def test_after_a_reset_the_result_of_a_command_is_unknown_and_it_is_not_repeated() -> None:
    bench, answer = Bench(), Answer()
    bench.run(500)
    bench.session.call("set_led", 1, answer, bench.now_ms)
    bench.device.reset(bench.now_ms)
    bench.run(SOON_MS)
    assert bench.device.executed in ([], [Executed(1, 1)])
    [outcome] = answer.outcomes
    assert isinstance(outcome, Unanswered)
    assert "not known" in outcome.reason


def test_command_numbers_go_on_above_those_of_an_earlier_host() -> None:
    bench, answer = Bench(), Answer()
    bench.run(500)
    bench.session.call("set_led", 0, answer, bench.now_ms)
    bench.run(500)
    bench.kill_host()
    bench.run(500)
    bench.session.call("set_led", 1, answer, bench.now_ms)
    bench.run(500)
    assert [each.argument for each in bench.device.executed] == [0, 1]
    assert len(answer.outcomes) == 2


def test_a_command_that_the_device_does_not_have_is_not_sent() -> None:
    bench, answer = Bench(), Answer()
    bench.run(500)
    bench.session.call("explode", None, answer, bench.now_ms)
    bench.run(10)
    assert answer.outcomes == [Unanswered("the device has no command 'explode'; there are: set_led")]


def test_a_request_that_is_never_answered_ends() -> None:
    bench, answer = Bench(), Answer()
    bench.run(500)
    bench.device.is_lost = True
    bench.session.send_reliable(UpdateQuery(), answer, bench.now_ms, patience_ms=2000)
    bench.run(2100)
    assert answer.outcomes == [Unanswered("the device did not answer in time")]


def test_a_firmware_request_gets_a_response_and_an_event() -> None:
    bench, answer = Bench(), Answer()
    bench.run(500)
    bench.session.send_reliable(UpdateQuery(), answer, bench.now_ms)
    bench.run(200)
    [status] = [event.status for event in bench.events if isinstance(event, StatusReceived)]
    assert answer.outcomes == [status]


def test_log_lines_come_with_the_number_of_those_that_were_lost() -> None:
    bench = Bench()
    bench.run(500)
    bench.device.log("first")
    bench.run(10)
    bench.device.is_lost = True
    bench.device.log("unheard")
    bench.run(10)
    bench.device.is_lost = False
    bench.device.log("last")
    bench.run(10)
    heard = [(event.line.text, event.lost_lines) for event in bench.events if isinstance(event, LogReceived)]
    assert heard == [("first", 0), ("last", 1)]


# Authentication


def test_with_the_same_key_on_both_sides_everything_works() -> None:
    bench, answer = Bench(ModelDevice(key=KEY), key=KEY, faults=Faults(bit_flips=0.0005)), Answer()
    bench.run(3000, measure_every_ms=100)
    bench.session.call("set_led", 1, answer, bench.now_ms)
    bench.run(4000)
    assert bench.values_of(bench.device.boot_id) == list(range(30))
    assert len(answer.outcomes) == len(bench.device.executed) == 1


@pytest.mark.parametrize(
    ("host_key", "device_key", "problem"),
    [
        (None, KEY, "requires a key; set key_file"),
        (KEY, None, "does not prove that it has the key"),
        (KEY, bytes(32), "does not prove that it has the key"),
    ],
)
def test_without_the_same_key_there_is_no_session(host_key: bytes, device_key: bytes, problem: str) -> None:
    bench = Bench(ModelDevice(key=device_key), key=host_key)
    bench.run(2000, measure_every_ms=100)
    assert not bench.measured
    assert problem in bench.session.problem
    assert KEY.hex() not in repr(bench.session) + bench.session.problem


def test_a_forged_frame_in_an_authenticated_session_is_counted_and_dropped() -> None:
    bench = Bench(ModelDevice(key=KEY), key=KEY)
    bench.run(500)
    forged = Record(rseq=0, uptime_ms=1, samples=(Sample(0, 1),))
    session = bench.session.number
    assert bench.session.receive(frame_of(forged, session=session).to_bytes(), bench.moment) == []
    assert bench.session.counters.refused_frames == 1


def test_a_sensor_that_is_not_described_costs_that_sample_only() -> None:
    bench = Bench()
    bench.run(500)
    record = Record(rseq=0, uptime_ms=1, samples=(Sample(9, 1), Sample(0, 2150), Sample(1, None)))
    session = bench.session.number
    events = bench.session.receive(frame_of(record, session=session).to_bytes(), bench.moment)
    assert [event.value for event in events] == [21.5]  # type: ignore[union-attr]
    assert bench.session.counters.foreign_frames == 1
    assert bench.session.counters.empty_samples == 1


def test_an_integer_stays_whole_where_nothing_is_divided() -> None:
    sensor = SensorDescription(index=0, name="a", quantity="b", unit="", exponent=3)
    bench = Bench(ModelDevice(sensors=(sensor, SENSORS[1])))
    bench.run(500)
    bench.device.measure(7, bench.now_ms)
    bench.run(100)
    assert [(each.value, type(each.value)) for each in bench.measured] == [(7000, int), (7, int)]
