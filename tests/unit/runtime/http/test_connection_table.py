"""Which connection gives way, on fake connections and tasks."""

import contextlib
from typing import Any, cast

from runtime.http import HttpCounts, HttpLimits
from runtime.http.connection_table import ConnectionTable


class FakeTask:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Client:
    """A connection of the table, with the task that would serve it."""

    def __init__(self, table: ConnectionTable, address: str) -> None:
        self.connection = cast("Any", object())
        self.task = FakeTask()
        table.add(self.connection, address, cast("Any", self.task))
        self.has_place = table.has_place(self.connection)


def make_table(max_connections: int = 4, max_per_address: int = 3) -> ConnectionTable:
    limits = HttpLimits(max_connections=max_connections, max_connections_per_address=max_per_address)
    return ConnectionTable(limits, HttpCounts())


def test_the_oldest_of_the_address_with_most_connections_gives_way() -> None:
    table = make_table()
    honest = Client(table, "10.0.0.9")
    hostile = [Client(table, "10.0.0.1") for _ in range(3)]
    newcomer = Client(table, "10.0.0.2")
    assert newcomer.has_place
    assert [client.task.is_cancelled for client in (honest, *hostile)] == [False, True, False, False]


def test_a_connection_with_an_admitted_request_does_not_give_way() -> None:
    table = make_table(max_connections=1)
    device = Client(table, "10.0.0.1")
    table.protect(device.connection)
    newcomer = Client(table, "10.0.0.2")
    assert not newcomer.has_place
    assert not device.task.is_cancelled


def test_protection_ends_with_the_request() -> None:
    table = make_table(max_connections=1)
    device = Client(table, "10.0.0.1")
    with contextlib.suppress(ConnectionError), table.one_request(device.connection):
        table.protect(device.connection)
        raise ConnectionError
    assert Client(table, "10.0.0.2").has_place
    assert device.task.is_cancelled


def test_a_connection_that_was_evicted_is_not_evicted_again_instead_of_another() -> None:
    table = make_table(max_connections=2, max_per_address=100)
    clients: list[Client] = []
    for _ in range(6):
        with contextlib.ExitStack() as requests:
            for client in clients:
                requests.enter_context(table.one_request(client.connection))
            clients.append(Client(table, "10.0.0.1"))
    assert [client.task.is_cancelled for client in clients] == [True] * 4 + [False] * 2


def test_an_address_at_its_limit_takes_places_only_from_itself() -> None:
    table = make_table(max_connections=10, max_per_address=2)
    other = Client(table, "10.0.0.9")
    first, second, third = (Client(table, "10.0.0.1") for _ in range(3))
    assert third.has_place
    assert [client.task.is_cancelled for client in (other, first, second)] == [False, True, False]


def test_an_address_whose_connections_are_all_admitted_gets_no_more() -> None:
    table = make_table(max_connections=10, max_per_address=1)
    table.protect(Client(table, "10.0.0.1").connection)
    assert not Client(table, "10.0.0.1").has_place
    assert Client(table, "10.0.0.2").has_place


def test_a_connection_that_ended_frees_its_place() -> None:
    table = make_table(max_connections=1, max_per_address=1)
    gone = Client(table, "10.0.0.1")
    table.remove(gone.connection)
    with table.one_request(gone.connection):
        pass
    assert Client(table, "10.0.0.1").has_place
    assert not gone.task.is_cancelled
