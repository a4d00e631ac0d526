"""A microcontroller in Python, by the rules of `docs/wire-formats.md` §10: bytes and the time in, bytes out.

It stands for the firmware where time must be virtual or the device must misbehave; the real one runs in
`tests/integration/firmware/`.
"""

from collections import deque
from dataclasses import dataclass

from protocol.errors import WireError
from protocol.link import (
    Ack,
    Authenticator,
    Command,
    CommandDescription,
    CommandResult,
    CommandStatus,
    DescriptionRequest,
    Direction,
    Feature,
    Frame,
    FrameType,
    Hello,
    LinkDecoder,
    LogLevel,
    LogLine,
    Message,
    Record,
    Sample,
    SensorDescription,
    Sync,
    Time,
    TimeRequest,
    UpdateQuery,
    UpdateReason,
    UpdateState,
    UpdateStatus,
    derive_session_key,
    frame_of,
    message_in,
    schema_of,
)

SENSORS = (
    SensorDescription(index=0, name="boiler", quantity="temperature", unit="Cel", exponent=-2),
    SensorDescription(index=1, name="boiler", quantity="pulses", unit="", exponent=0),
)
COMMANDS = (CommandDescription(index=2, name="set_led", argument="0 or 1"),)
SILENCE_MS = 3000.0
CALL_EVERY_MS = 1000.0


@dataclass(frozen=True)
class Executed:
    id: int
    argument: int | str | None


class ModelDevice:
    def __init__(
        self,
        device_id: str = "model-1",
        *,
        key: bytes | None = None,
        queue_records: int = 64,
        window: int = 4,
        clock_rate: float = 1.0,
        sensors: tuple[SensorDescription, ...] = SENSORS,
    ) -> None:
        self.device_id = device_id
        self.executed: list[Executed] = []
        self.measured: dict[bytes, list[int]] = {}  # boot id ──► the values, by rseq
        self.schema = schema_of((*sensors, *COMMANDS))
        self.descriptions_sent = 0
        self.is_lost = False  # off, or its cable pulled: neither hears nor speaks
        self._sensors = sensors
        self._key = key
        self._queue_records = queue_records
        self._window = window
        self._clock_rate = clock_rate
        self._boots = 0
        self._booted_ms = 0.0
        self.reset(0.0)

    def reset(self, now_ms: float) -> None:
        self._boots += 1
        self._booted_ms = now_ms
        self.boot_id = self._boots.to_bytes(8)
        self.measured[self.boot_id] = []
        self.dropped = 0
        self.queue: deque[Record] = deque()
        self._next_rseq = 0
        self._syncs = 0
        self._last_result: CommandResult | None = None
        self._log_number = 0
        self._output = bytearray()
        self._decoder = LinkDecoder()
        self._call_at_ms = now_ms
        self._close()

    def _close(self) -> None:
        self._session = 0
        self._nonce = b""
        self._is_open = False
        self._sent = self._received = 0  # numbers of readings: sent, and known to have been received
        self._first_unreceived = 0  # its place in the queue
        self._authenticator: Authenticator | None = None

    def uptime_ms(self, now_ms: float) -> int:
        return int((now_ms - self._booted_ms) * self._clock_rate)

    # What the application does

    def measure(self, value: int, now_ms: float) -> None:
        self.measured[self.boot_id].append(value)
        samples = tuple(Sample(sensor.index, value) for sensor in self._sensors)
        record = Record(rseq=self._next_rseq, uptime_ms=self.uptime_ms(now_ms), samples=samples)
        self._next_rseq += 1
        if len(self.queue) < self._queue_records:
            self.queue.append(record)
            self._send_readings(now_ms)
        else:
            self.dropped += 1

    def log(self, text: str) -> None:
        self._send(LogLine(number=self._log_number, level=LogLevel.WARNING, text=text))
        self._log_number += 1

    # The line

    def receive(self, data: bytes, now_ms: float) -> None:
        if self.is_lost:
            return
        for found in self._decoder.feed(data):
            if isinstance(found, Frame):
                self._take(found, now_ms)

    def tick(self, now_ms: float) -> None:
        if self._session and now_ms - self._heard_ms > SILENCE_MS:
            self._close()
        if not self._session and now_ms >= self._call_at_ms:
            self._call_at_ms = now_ms + CALL_EVERY_MS
            self._send(self._hello(now_ms))
        if self._sent != self._received and now_ms - self._progress_ms >= self._retry_ms:
            self._go_back(now_ms)

    def take_output(self) -> bytes:
        output = b"" if self.is_lost else bytes(self._output)
        self._output.clear()
        return output

    # The rules

    def _take(self, frame: Frame, now_ms: float) -> None:
        if frame.kind is not FrameType.SYNC and (frame.session != self._session or not self._is_genuine(frame)):
            return
        try:
            message = message_in(frame)
        except WireError:
            return
        self._heard_ms = now_ms
        match message:
            case Sync():
                self._sync(message, frame.session, now_ms)
            case Ack():
                self._acknowledged(message, frame, now_ms)
            case DescriptionRequest() if message.index < len(self._sensors) + len(COMMANDS):
                self.descriptions_sent += 1
                described: list[SensorDescription | CommandDescription] = [*self._sensors, *COMMANDS]
                self._send(described[message.index])
            case TimeRequest():
                self._send(Time(token=message.token, uptime_ms=self.uptime_ms(now_ms)))
            case Command() if self._last_result is None or message.id >= self._last_result.id:
                self._send(self._execute(message))
            case UpdateQuery():
                self._send(UpdateStatus(next_offset=0, state=UpdateState.IDLE, reason=UpdateReason.NONE))

    def _is_genuine(self, frame: Frame) -> bool:
        try:
            if self._authenticator is not None:
                self._authenticator.check(frame)
        except WireError:
            return False
        return True

    def _sync(self, sync: Sync, session: int, now_ms: float) -> None:
        if sync.host_nonce != self._nonce:
            self._close()
            self._session, self._nonce, self._retry_ms = session, sync.host_nonce, sync.retry_ms
            self._syncs += 1
            self._progress_ms = now_ms
            if self._key is not None:
                key = derive_session_key(self._key, host_nonce=self._nonce, boot_id=self.boot_id, syncs=self._syncs)
                self._authenticator = Authenticator(key, sends=Direction.TO_HOST)
        self._send(self._hello(now_ms))

    def _hello(self, now_ms: float) -> Hello:
        return Hello(
            host_nonce=self._nonce,
            boot_id=self.boot_id,
            syncs=self._syncs,
            device_id=self.device_id,
            firmware="1.0",
            mtu=256,
            window=self._window,
            sensors=len(self._sensors),
            commands=len(COMMANDS),
            schema=self.schema,
            next_rseq=self._next_rseq,
            dropped=self.dropped,
            last_command=self._last_result.id if self._last_result else 0,
            uptime_ms=self.uptime_ms(now_ms),
            features=Feature(0) if self._key is None else Feature.AUTHENTICATED,
        )

    def _acknowledged(self, ack: Ack, frame: Frame, now_ms: float) -> None:
        self._is_open = True
        news = (frame.seq - self._received) % 256
        if news <= self._sent - self._received:
            self._received += news
            self._first_unreceived += news
            if news:
                self._progress_ms = now_ms
            if ack.committed_rseq <= self._next_rseq:
                while self._first_unreceived and self.queue and self.queue[0].rseq < ack.committed_rseq:
                    self.queue.popleft()
                    self._first_unreceived -= 1
            while self.queue and self._received == 0 and self.queue[0].rseq < ack.committed_rseq <= self._next_rseq:
                self.queue.popleft()  # the first ACK states what an earlier session delivered
            if frame.is_nak:
                self._go_back(now_ms)
        self._send_readings(now_ms)

    def _go_back(self, now_ms: float) -> None:
        self._sent = self._received
        self._progress_ms = now_ms
        self._send_readings(now_ms)

    def _send_readings(self, now_ms: float) -> None:
        if not self._is_open:
            return
        if self._sent == self._received:
            self._progress_ms = now_ms
        while self._sent - self._received < self._window:
            place = self._first_unreceived + self._sent - self._received
            if place >= len(self.queue):
                break
            self._send(self.queue[place], seq=self._sent % 256)
            self._sent += 1

    def _execute(self, command: Command) -> CommandResult:
        last = self._last_result
        if last is not None and command.id == last.id:
            return last
        self.executed.append(Executed(command.id, command.argument))
        self._last_result = CommandResult(id=command.id, status=CommandStatus.DONE, value=command.argument)
        return self._last_result

    def _send(self, message: Message, *, seq: int = 0) -> None:
        frame = frame_of(message, session=self._session, seq=seq)
        if self._authenticator is not None:
            frame = self._authenticator.prove(frame)
        self._output += frame.to_bytes()
