"""A TCP proxy in front of a broker that records over which connections each publication was delivered.

It can hold back what the client sends, so that acknowledgements do not arrive, and break all connections.
"""

import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from runtime.mqtt.packets import parse_publications

__all__ = ["RecordingProxy", "recording_proxy"]

READ_BYTES = 65_536


class RecordingProxy:
    """For one client after the other, of MQTT version 5."""

    def __init__(self, broker_port: int) -> None:
        self.deliveries: defaultdict[bytes, set[int]] = defaultdict(set)  # payload ──► connections, by their number
        self.passes_acknowledgements = threading.Event()
        self.passes_acknowledgements.set()
        self._broker_port = broker_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._sockets: list[socket.socket] = []
        self._threads[0].start()

    def break_connections(self) -> None:
        """What is held back is lost."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.break_connections()
        self.passes_acknowledgements.set()
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._broker_port))
                self._connections += 1
                self._sockets += [client, broker]
                for work in (self._upstream, self._downstream):
                    thread = threading.Thread(target=work, args=(client, broker, self._connections), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _upstream(self, client: socket.socket, broker: socket.socket, _number: int) -> None:
        with suppress(OSError):
            while data := client.recv(READ_BYTES):
                self.passes_acknowledgements.wait()
                broker.sendall(data)
            broker.shutdown(socket.SHUT_WR)

    def _downstream(self, client: socket.socket, broker: socket.socket, number: int) -> None:
        unread = b""
        with suppress(OSError):
            while data := broker.recv(READ_BYTES):
                unread = self._record(unread + data, number)
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)

    def _record(self, data: bytes, number: int) -> bytes:
        """Gives what is not a whole packet yet."""
        while True:
            taken = parse_publications(data, is_v5=True, max_bytes=1 << 24)
            for message in taken.messages:
                self.deliveries[message.payload].add(number)
            data = data[taken.used_bytes :]
            if not 0 < taken.next_bytes <= len(data):
                return data
            data = data[taken.next_bytes :]


@contextmanager
def recording_proxy(broker_port: int) -> Iterator[RecordingProxy]:
    proxy = RecordingProxy(broker_port)
    try:
        yield proxy
    finally:
        proxy.close()
