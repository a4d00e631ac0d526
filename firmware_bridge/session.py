"""The host's side of the link to one device: sessions, readings, requests, time. Bytes and the time in, events out.

    seeking ──SYNC…──► HELLO ──► learning ──DESC, TIME──► open ──► readings, commands, firmware
       ▲                                                    │
       └──────── silence, or the device calls for a session ┘

Rules: `docs/wire-formats.md` §10. A session object lives as long as its driver: `begin` starts it afresh on a port that
was opened, and received records, descriptions and pending requests remain.
"""

import secrets
from collections.abc import Callable, Collection, Iterable
from typing import Final

from firmware_bridge.clock_mapping import ClockMapping
from firmware_bridge.descriptions import Descriptions, DeviceDescription
from firmware_bridge.errors import CommandRejected
from firmware_bridge.events import Event, LinkCounters, LinkLost, LinkUp, LogReceived, StatusReceived
from firmware_bridge.received import Boot, ReceivedByBoot
from firmware_bridge.reception import Moment, Reception
from firmware_bridge.requests import Done, Requests
from protocol.errors import WireError
from protocol.link import (
    HOST_NONCE_BYTES,
    Authenticator,
    Command,
    CommandDescription,
    CommandResult,
    CommandValue,
    Damaged,
    DescriptionRequest,
    Direction,
    Feature,
    Frame,
    FrameType,
    Hello,
    LinkDecoder,
    LogLine,
    Message,
    Record,
    SensorDescription,
    Sync,
    Time,
    TimeRequest,
    UpdateStatus,
    derive_session_key,
    frame_of,
    message_in,
)

SYNC_EVERY_MS: Final = 250.0
KEEPALIVE_MS: Final = 1000.0
SILENCE_MS: Final = 3000.0
USUAL_WINDOW: Final = 4  # before the first HELLO
USUAL_MTU: Final = 256
MAX_RETRY_MS: Final = 60_000
BYTE_MS_BAUDS: Final = 10_000.0  # divided by the baud rate: the time of a byte of ten bits, in milliseconds
MAX_TIME_REQUESTS: Final = 8
PATIENCE_MS: Final = 10_000.0


class HostSession:
    def __init__(
        self,
        *,
        baudrate: int,
        key: bytes | None = None,
        expected_device: str = "",
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """`key`: 32 bytes, shared with the device. `expected_device`: accept no other device id."""
        self.counters = LinkCounters()
        self.received = ReceivedByBoot()
        self.clock = ClockMapping()
        self._baudrate = baudrate
        self._key = key
        self._expected_device = expected_device
        self._draw = draw
        self._descriptions = Descriptions()
        self._requests = Requests()
        self._session = draw(1)[0]
        self._boot: Boot | None = None
        self._is_new_boot = False
        self._last_hello: Hello | None = None  # of any session
        self._last_command = 0
        self._next_log: int | None = None
        self._output = bytearray()
        self.begin(0.0)

    def begin(self, now_ms: float) -> None:
        """Begin to establish a session: the port was opened, or the session was lost."""
        self.problem = ""  # why there is no session although a device responds
        self.refused_hello: Hello | None = None  # of the device that was refused; not authenticated
        self._decoder = LinkDecoder()
        self._output.clear()
        self._session = self._session % 255 + 1
        self._nonce = self._draw(HOST_NONCE_BYTES)
        self._authenticator: Authenticator | None = None
        self._hello: Hello | None = None
        self._description: DeviceDescription | None = None
        self._reception: Reception | None = None  # None until the flow of readings is open
        self._time_requests: dict[int, float] = {}  # token ──► when it was sent
        self._sync_at_ms = self._keepalive_at_ms = self._description_at_ms = self._received_at_ms = now_ms

    def __repr__(self) -> str:
        return f"<HostSession {self._session}, {'open' if self.is_open else 'not open'}>"

    @property
    def number(self) -> int:
        """The number of the present session, or of the next one."""
        return self._session

    @property
    def hello(self) -> Hello | None:
        """The HELLO of the present session; None while there is none."""
        return self._hello

    @property
    def is_open(self) -> bool:
        return self._reception is not None

    @property
    def sensors(self) -> Collection[SensorDescription]:
        return self._description.sensors.values() if self._description else ()

    @property
    def commands(self) -> Collection[CommandDescription]:
        return self._description.commands.values() if self._description else ()

    # Towards the port

    def receive(self, data: bytes, now: Moment) -> list[Event]:
        """Process received bytes."""
        events: list[Event] = []
        for found in self._decoder.feed(data):
            if isinstance(found, Frame):
                self.counters.frames += 1
                events += self._accept_frame(found, now)
            else:
                self._note_damage(found)
        self._acknowledge(now.steady_ms)
        self._send_requests(now.steady_ms)
        return events

    def tick(self, now: Moment) -> list[Event]:
        """Do what is due. Call it when `wait_ms` has passed, and after each new request."""
        now_ms, events = now.steady_ms, list[Event]()
        self._requests.end_timed_out(now_ms)
        if self._hello is not None and self._is_silent(now_ms):
            events.append(LinkLost(reason=f"no frame received for {SILENCE_MS / 1000:g} s"))
            self.begin(now_ms)
        if self._hello is None:
            self._seek(now_ms)
        else:
            self._request_description(now_ms)
            self._send_keepalive(now_ms)
            self._send_requests(now_ms)
        return events

    def wait_ms(self, now_ms: float) -> float:
        """How long until `tick` is due."""
        if self._hello is None:
            return max(0.0, self._sync_at_ms - now_ms)
        due_ms = [self._keepalive_at_ms]
        if not self.is_open:
            due_ms.append(self._description_at_ms)
        if (request_ms := self._requests.next_due_ms()) is not None:
            due_ms.append(request_ms)
        return max(0.0, min(due_ms) - now_ms)

    def take_output(self) -> bytes:
        """The bytes to send."""
        output = bytes(self._output)
        self._output.clear()
        return output

    # Towards the driver

    def commit(self, tokens: Iterable[int], now_ms: float) -> None:
        """These samples are durable; acknowledge them."""
        self.received.commit(tokens)
        self._acknowledge(now_ms)

    def send_reliable(self, message: Message, done: Done, now_ms: float, patience_ms: float = PATIENCE_MS) -> None:
        """Repeat a FW_ message until FW_STATUS answers; `done` is called once, with it or with why there is none.

        A request may wait for a session, and survive one.
        """
        self._requests.add(lambda: message, done, now_ms + patience_ms)
        self._send_requests(now_ms)

    def call(
        self, name: str, argument: CommandValue, done: Done, now_ms: float, patience_ms: float = PATIENCE_MS
    ) -> None:
        """Have the device execute a command, once. Without a response it is unknown whether it did."""
        self._requests.add(lambda: self._make_command(name, argument), done, now_ms + patience_ms)
        self._send_requests(now_ms)

    # Seeking

    def _seek(self, now_ms: float) -> None:
        if now_ms >= self._sync_at_ms:
            self._sync_at_ms = now_ms + SYNC_EVERY_MS
            self._send(Sync(host_nonce=self._nonce, retry_ms=self._retry_ms))

    @property
    def _retry_ms(self) -> int:
        """How long the device waits for an acknowledgement: as long as a full window needs, four times over."""
        window, mtu = USUAL_WINDOW, USUAL_MTU
        if self._last_hello is not None:
            window, mtu = self._last_hello.window, self._last_hello.mtu
        return min(MAX_RETRY_MS, round(100 + 4 * window * mtu * BYTE_MS_BAUDS / self._baudrate))

    @property
    def _request_retry_ms(self) -> float:
        """The time of a request and a response on the line, and some processing time."""
        mtu = self._last_hello.mtu if self._last_hello is not None else USUAL_MTU
        return 100 + 2 * mtu * BYTE_MS_BAUDS / self._baudrate

    def _accept_hello(self, frame: Frame, now_ms: float) -> list[Event]:
        try:
            hello = Hello.from_bytes(frame.payload)
        except WireError as error:
            self.counters.note_foreign(str(error))
            return []
        if frame.session != self._session or hello.host_nonce != self._nonce:
            return []
        self.problem = self._refusal_of(hello, frame)
        self.refused_hello = hello if self.problem else None
        if self.problem:
            return []
        self._hello = self._last_hello = hello
        self._identify(hello)
        self._description = self._descriptions.of(hello)
        self._received_at_ms = self._keepalive_at_ms = self._description_at_ms = now_ms
        self._requests.resend()
        self._request_description(now_ms)
        self._send_keepalive(now_ms)
        return self._open_if_ready()

    def _refusal_of(self, hello: Hello, frame: Frame) -> str:
        """Why the device is refused; "" if it is accepted. With a key, the device must prove that it has it."""
        if self._expected_device and hello.device_id != self._expected_device:
            return f"another device responds: {hello.device_id}, not {self._expected_device}"
        if self._key is None:
            requires_key = Feature.AUTHENTICATED in hello.features
            return f"{hello.device_id} requires a key; set key_file" if requires_key else ""
        session_key = derive_session_key(self._key, host_nonce=self._nonce, boot_id=hello.boot_id, syncs=hello.syncs)
        authenticator = Authenticator(session_key, sends=Direction.TO_DEVICE)
        try:
            authenticator.check(frame)
        except WireError as error:
            self.counters.refused_frames += 1
            return f"{hello.device_id} does not prove that it has the key ({error}); check key_file"
        self._authenticator = authenticator
        return ""

    def _identify(self, hello: Hello) -> None:
        boot = Boot.of(hello.device_id, hello.boot_id)
        self.counters.sessions += 1
        self._is_new_boot = boot != self._boot
        if self._is_new_boot:
            self._requests.drop_commands("the device was reset; whether the command ran is not known")
            self.counters.boots += 1
            self.clock = ClockMapping()
            self._last_command = 0
            self._next_log = None
        self._boot = boot
        self._last_command = max(self._last_command, hello.last_command)

    # Learning

    def _request_description(self, now_ms: float) -> None:
        index = self._description.next_index if self._description is not None else None
        if index is not None and now_ms >= self._description_at_ms:
            self._description_at_ms = now_ms + self._request_retry_ms
            self._send(DescriptionRequest(index=index))

    def _accept_description(self, description: SensorDescription | CommandDescription, now_ms: float) -> None:
        known = self._description
        if known is None or not known.add(description):
            return
        if known.contradicts_hello:
            self.problem = "its descriptions contradict its HELLO; check its firmware"
            known.begin_again()
            return  # the next request is sent after the retry time, or the two would exchange frames without a pause
        self._description_at_ms = now_ms
        self._request_description(now_ms)

    def _open_if_ready(self) -> list[Event]:
        """Open the flow of readings by the first ACK, once the sensors are described and the clock is known."""
        is_ready = self._description is not None and self._description.is_complete and self.clock.is_known
        if self.is_open or not is_ready or self._description is None or self._hello is None or self._boot is None:
            return []
        self.problem = ""
        self._reception = Reception(
            device_id=self._hello.device_id,
            boot=self._boot,
            records=self.received.of(self._boot),
            sensors=self._description.sensors,
            clock=self.clock,
            counters=self.counters,
        )
        return [LinkUp(hello=self._hello, is_new_boot=self._is_new_boot)]

    # Receiving

    def _accept_frame(self, frame: Frame, now: Moment) -> list[Event]:
        if self._hello is None:
            return self._accept_hello(frame, now.steady_ms) if frame.kind is FrameType.HELLO else []
        if frame.kind is FrameType.HELLO and frame.session == 0:
            self.begin(now.steady_ms)
            self._seek(now.steady_ms)
            return [LinkLost(reason="the device has no session; it was reset, or received nothing")]
        if frame.session != self._session or not self._is_genuine(frame):
            return []
        self._received_at_ms = now.steady_ms
        try:
            message = message_in(frame)
        except WireError as error:
            self.counters.note_foreign(f"{frame.kind.name}: {error}")
            return []
        return self._accept_message(message, frame.seq, now)

    def _is_genuine(self, frame: Frame) -> bool:
        if self._authenticator is None:
            return True
        try:
            self._authenticator.check(frame)
        except WireError as error:
            self.counters.refused_frames += 1
            self.counters.last_problem = str(error)
            return False
        return True

    def _accept_message(self, message: Message, seq: int, now: Moment) -> list[Event]:
        match message:
            case Record() if self._reception is not None:
                return [*self._reception.accept(message, seq, now)]
            case Time():
                sent_ms = self._time_requests.pop(message.token, None)
                if sent_ms is not None:
                    self.clock.add(message.uptime_ms, sent_ms, now.steady_ms)
                return self._open_if_ready()
            case SensorDescription() | CommandDescription():
                self._accept_description(message, now.steady_ms)
                return self._open_if_ready()
            case CommandResult():
                self._requests.accept(message)
            case UpdateStatus():
                self._requests.accept(message)
                return [StatusReceived(status=message)]
            case LogLine():
                return [self._accept_log(message)]
        return []  # also for a repeated HELLO, and for messages that only a host sends

    def _accept_log(self, line: LogLine) -> LogReceived:
        lost = 0 if self._next_log is None else max(0, line.number - self._next_log)
        self._next_log = line.number + 1
        self.counters.log_lines += 1
        self.counters.lost_log_lines += lost
        return LogReceived(line=line, lost_lines=lost)

    def _note_damage(self, damaged: Damaged) -> None:
        if damaged.is_foreign:
            self.counters.note_foreign(damaged.problem)
            return
        self.counters.damaged_frames += 1
        self.counters.last_problem = damaged.problem
        if self._reception is not None:
            self._reception.note_damage()

    def _is_silent(self, now_ms: float) -> bool:
        """No frame although requests were sent: a host process that was itself suspended has sent none."""
        has_sent = any(sent_ms > self._received_at_ms for sent_ms in self._time_requests.values())
        return has_sent and now_ms - self._received_at_ms > SILENCE_MS

    # Sending

    def _send_keepalive(self, now_ms: float) -> None:
        """A time request, and an ACK in case the last one was lost: the device knows that the host is there."""
        if now_ms < self._keepalive_at_ms:
            return
        every_ms = KEEPALIVE_MS if self.clock.is_known else min(KEEPALIVE_MS, self._request_retry_ms)
        self._keepalive_at_ms = now_ms + every_ms
        token = int.from_bytes(self._draw(4))
        self._time_requests[token] = now_ms
        if len(self._time_requests) > MAX_TIME_REQUESTS:
            del self._time_requests[next(iter(self._time_requests))]
        self._send(TimeRequest(token=token))
        self._acknowledge(now_ms, is_keepalive=True)

    def _acknowledge(self, now_ms: float, *, is_keepalive: bool = False) -> None:
        if self._reception is None:
            return
        due = self._reception.acknowledgement(now_ms, self._retry_ms, is_keepalive=is_keepalive)
        if due is not None:
            ack, is_nak = due
            self._send(ack, seq=self._reception.expected, is_nak=is_nak)

    def _send_requests(self, now_ms: float) -> None:
        message = self._requests.due(now_ms, self._request_retry_ms) if self._hello is not None else None
        self.counters.repeated_requests = self._requests.repeated
        if message is not None:
            self._send(message)

    def _make_command(self, name: str, argument: CommandValue) -> Message:
        if self._description is None or not self._description.is_complete:
            raise CommandRejected(f"the device has not described its commands yet; {name} was not sent")
        description = self._description.commands.get(name)
        if description is None:
            known = ", ".join(self._description.commands) or "none"
            raise CommandRejected(f"the device has no command {name!r}; there are: {known}")
        self._last_command += 1
        self.counters.commands += 1
        return Command(id=self._last_command, command=description.index, argument=argument)

    def _send(self, message: Message, *, seq: int = 0, is_nak: bool = False) -> None:
        frame = frame_of(message, session=self._session, seq=seq, is_nak=is_nak)
        if self._authenticator is not None:
            if self._authenticator.is_exhausted:
                return  # silence ends the session, and the next one has a new key
            frame = self._authenticator.prove(frame)
        self._output += frame.to_bytes()
