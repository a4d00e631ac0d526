"""The example firmware really running: in this machine under sanitizers, and as Cortex-M3 code in QEMU."""

from pathlib import Path

import pytest

from protocol.link import (
    Command,
    CommandDescription,
    CommandResult,
    CommandStatus,
    DescriptionRequest,
    Feature,
    LogLine,
    SensorDescription,
    Time,
    TimeRequest,
    schema_of,
)
from tests.support.example_firmware import Line, host_firmware, make, qemu
from tests.support.small_gateway import SmallGateway

KEY = bytes(range(32))
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all"
LED_STATE = 3  # the sensor
LED, INTERVAL_MS, COUNT = range(3)  # the first commands
BOARDS = ["mps2-an385", "stm32vldiscovery"]


def greet(line: Line) -> None:
    line.run_until(lambda gateway: gateway.hello is not None)


def learn_descriptions(line: Line) -> list[SensorDescription | CommandDescription]:
    """Ask for all, one after the other."""
    hello, found = line.gateway.hello, []
    assert hello is not None
    for index in range(hello.sensors + hello.commands):
        line.send(line.gateway.say(DescriptionRequest(index=index)))
        line.run_until(lambda gateway: any(getattr(message, "index", None) == index for message in gateway.messages))  # noqa: B023
        found += [
            message
            for message in line.gateway.messages
            if isinstance(message, SensorDescription | CommandDescription) and message.index == index
        ]
    return found


def run_command(line: Line, number: int, command: int, argument: int) -> CommandResult:
    """The commands are described after the sensors."""
    assert line.gateway.hello is not None
    index = line.gateway.hello.sensors + command
    line.send(line.gateway.say(Command(id=number, command=index, argument=argument)))
    line.run_until(lambda gateway: _result(gateway, number) is not None)
    result = _result(line.gateway, number)
    assert result is not None
    return result


def _result(gateway: SmallGateway, number: int) -> CommandResult | None:
    found = [message for message in gateway.messages if isinstance(message, CommandResult) and message.id == number]
    return found[-1] if found else None


def hold_a_whole_conversation(line: Line) -> None:
    """Everything the example can do, as a gateway sees it."""
    gateway = line.gateway
    greet(line)
    assert gateway.hello is not None
    assert gateway.hello.schema == schema_of(learn_descriptions(line))

    assert run_command(line, 1, INTERVAL_MS, 20).status == CommandStatus.DONE
    assert run_command(line, 2, LED, 1).status == CommandStatus.DONE
    assert run_command(line, 3, LED, 2).status == CommandStatus.BAD_ARGUMENT
    assert run_command(line, 4, COUNT, 5).value == 5
    gateway.messages.clear()
    assert run_command(line, 4, COUNT, 5).value == 5, "it ran twice"
    assert run_command(line, 5, COUNT, 5).value == 10

    line.send(gateway.say(TimeRequest(token=7)))
    line.run_until(lambda gateway: any(isinstance(message, Time) for message in gateway.messages))

    line.run_until(lambda gateway: len(gateway.journal) >= 30)
    assert [record.rseq for record in gateway.journal] == list(range(len(gateway.journal)))
    assert gateway.journal[-1].samples[LED_STATE].value == 1, "the LED is on"
    temperatures = {record.samples[0].value for record in gateway.journal}
    assert len(temperatures) > 3
    assert all(value is not None and 1500 <= value <= 3200 for value in temperatures)
    uptimes = [record.uptime_ms for record in gateway.journal]
    assert uptimes == sorted(set(uptimes))


@pytest.fixture(scope="module")
def host_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("firmware")
    make(build, "host", CC="gcc", CFLAGS=SANITIZERS)
    return build / "firmware-host"


@pytest.mark.slow
@pytest.mark.needs("gcc", "gcc")
@pytest.mark.needs("make", "make")
class TestOnThisMachine:
    def test_it_holds_a_whole_conversation_without_a_finding_of_the_sanitizers(self, host_program: Path) -> None:
        with host_firmware(host_program, SmallGateway(), "--id", "kitchen") as line:
            hold_a_whole_conversation(line)
            assert line.gateway.hello is not None
            assert line.gateway.hello.device_id == "kitchen"
            assert line.gateway.hello.features == Feature(0)

    def test_with_a_key_it_speaks_only_to_who_has_it(self, host_program: Path) -> None:
        with host_firmware(host_program, SmallGateway(KEY), "--key", KEY.hex()) as line:
            hold_a_whole_conversation(line)
            assert line.gateway.hello is not None
            assert line.gateway.hello.features == Feature.AUTHENTICATED
        without_key = SmallGateway()
        with host_firmware(host_program, without_key, "--key", KEY.hex(), "--interval-ms", "10") as line:
            greet(line)
            assert without_key.hello is not None
            sessions = without_key.hello.syncs
            line.run_until(lambda gateway: gateway.hello is not None and gateway.hello.syncs > sessions)  # it gave up
            assert without_key.journal == []

    def test_its_log_arrives_with_numbers_that_rise(self, host_program: Path) -> None:
        with host_firmware(host_program, SmallGateway()) as line:
            greet(line)
            run_command(line, 1, LED, 1)
            run_command(line, 2, LED, 0)
            line.run_until(lambda gateway: len(_log(gateway)) >= 3)
            texts = [entry.text for entry in _log(line.gateway)]
            assert [text for text in texts if "led" in text] == ["led on", "led off"]
            assert [text for text in texts if "led" not in text] == ["link up, firmware 1.0.0"]
            assert [entry.number for entry in _log(line.gateway)] == [0, 1, 2]

    def test_every_start_has_another_boot_id(self, host_program: Path) -> None:
        boot_ids = set()
        for _ in range(3):
            with host_firmware(host_program, SmallGateway()) as line:
                greet(line)
                assert line.gateway.hello is not None
                boot_ids.add(line.gateway.hello.boot_id)
        assert len(boot_ids) == 3


def _log(gateway: SmallGateway) -> list[LogLine]:
    return [message for message in gateway.messages if isinstance(message, LogLine)]


@pytest.mark.slow
@pytest.mark.needs("arm-none-eabi-gcc", "gcc-arm-none-eabi")
@pytest.mark.needs("qemu-system-arm", "qemu-system-arm")
@pytest.mark.needs("make", "make")
class TestInQemu:
    @pytest.mark.parametrize("board", BOARDS)
    def test_the_board_holds_a_whole_conversation(self, board: str, tmp_path: Path) -> None:
        make(tmp_path, board, VERSION="2.3.4")
        with qemu(board, tmp_path / f"{board}.elf", tmp_path, SmallGateway()) as bench:
            hold_a_whole_conversation(bench.line)
            assert bench.line.gateway.hello is not None
            assert bench.line.gateway.hello.device_id == board
            assert bench.line.gateway.hello.firmware == "2.3.4"

    def test_a_board_with_a_key_speaks_to_who_has_it(self, tmp_path: Path) -> None:
        make(tmp_path, "mps2-an385", KEY=KEY.hex())
        with qemu("mps2-an385", tmp_path / "mps2-an385.elf", tmp_path, SmallGateway(KEY)) as bench:
            hold_a_whole_conversation(bench.line)
            assert bench.line.gateway.hello is not None
            assert bench.line.gateway.hello.features == Feature.AUTHENTICATED

    @pytest.mark.parametrize("board", BOARDS)
    def test_every_boot_has_another_id_after_a_reset_and_after_a_power_cut(self, board: str, tmp_path: Path) -> None:
        make(tmp_path, board)
        boot_ids = set()
        for number in range(2):
            directory = tmp_path / str(number)
            directory.mkdir()
            with qemu(board, tmp_path / f"{board}.elf", directory, SmallGateway()) as bench:
                for _ in range(3):
                    greet(bench.line)
                    assert bench.line.gateway.hello is not None
                    boot_ids.add(bench.line.gateway.hello.boot_id)
                    bench.line.gateway.hello = None
                    bench.reset()
        assert len(boot_ids) == 6
