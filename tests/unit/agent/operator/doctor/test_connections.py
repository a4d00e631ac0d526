import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from agent.config.configuration import load_config
from agent.operator.doctor.connections import (
    ADVICE,
    LinkFacts,
    LinkTarget,
    PortFacts,
    gather_link,
    gather_ports,
    judge_link,
    judge_port,
    link_targets,
)
from agent.operator.doctor.finding import Severity
from tests.support.certificates import make_certificate

THERE = PortFacts(driver="scales", wanted="/dev/ttyUSB0", device="/dev/ttyUSB0")


@pytest.mark.parametrize(
    ("facts", "severity", "word"),
    [
        (replace(THERE, device=None), Severity.ERROR, "no such port"),
        (replace(THERE, may_open=False), Severity.ERROR, "permission denied"),
        (replace(THERE, holders=("ModemManager (7)",)), Severity.WARNING, "in use by ModemManager"),
        (THERE, Severity.OK, "present"),
    ],
)
def test_a_port_is_judged(facts: PortFacts, severity: Severity, word: str) -> None:
    (finding,) = judge_port(facts)
    assert finding.severity is severity
    assert word in finding.text


def test_the_group_that_may_open_ports_is_named() -> None:
    (finding,) = judge_port(replace(THERE, may_open=False))
    assert "dialout" in finding.advice


def test_who_holds_a_port_is_found_and_we_ourselves_do_not_count(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    port = os.ttyname(theirs)
    (tmp_path / "headgate.toml").write_text(
        '[device]\nname = "bench"\n[drivers.s]\ndriver = "serial_line"\nformat = "raw"\nmime_type = "text/plain"\n'
        f'port = "{port}"\n'
    )
    config = load_config(tmp_path / "headgate.toml")
    (held,) = gather_ports(config, own_pids=())
    (free,) = gather_ports(config, own_pids={os.getpid()})
    assert any(f"({os.getpid()})" in holder for holder in held.holders)
    assert free == PortFacts(driver="s", wanted=port, device=port)
    os.close(ours)
    os.close(theirs)
    (gone,) = gather_ports(config, own_pids=())
    assert gone.device is None


def test_a_pattern_means_every_port_that_fits(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "proc").mkdir()
    (tmp_path / "headgate.toml").write_text(
        '[device]\nname = "bench"\n[drivers.m]\ndriver = "firmware"\nport = "/dev/ttyACM*"\ndevice_id = "0a"\n'
    )
    config = load_config(tmp_path / "headgate.toml")
    assert [facts.device for facts in gather_ports(config, (), tmp_path)] == [None]
    (tmp_path / "dev" / "ttyACM0").touch()
    (tmp_path / "dev" / "ttyACM3").touch()
    assert [facts.device for facts in gather_ports(config, (), tmp_path)] == ["/dev/ttyACM0", "/dev/ttyACM3"]


CONFIGURATION = """
[device]
name = "bench"
[archive]
[ship]
url = "https://collector.example"
collector_key = "key"
[publishers.ws]
kind = "websocket"
url = "wss://node.example:7071"
[publishers.mq]
kind = "mqtt"
host = "broker"
tls = "on"
[publishers.out]
kind = "file"
path = "/srv/out.jsonl"
"""


@contextmanager
def _listening(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A port that takes one connection, with TLS or without."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            if tls is None:
                connection.recv(1)
            else:
                with tls.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


def test_every_destination_of_a_configuration_is_known(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text(CONFIGURATION)
    ends = link_targets(load_config(tmp_path / "headgate.toml"))
    assert [(end.name, end.host, end.port, end.is_secure, end.folder) for end in ends] == [
        ("publishers.ws", "node.example", 7071, True, None),
        ("publishers.mq", "broker", 1883, True, None),
        ("publishers.out", "", 0, False, Path("/srv")),
        ("ship", "collector.example", 443, True, None),
    ]


def test_a_port_that_answers_is_good() -> None:
    with _listening() as port:
        assert gather_link(LinkTarget(name="a", host="127.0.0.1", port=port), None).failed_at == ""


def test_the_failed_step_of_a_link_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    refused = gather_link(LinkTarget(name="a", host="127.0.0.1", port=port), None)
    unknown = gather_link(LinkTarget(name="a", host="nowhere.invalid", port=1), None)
    nonsense = gather_link(LinkTarget(name="a", host="a" * 300, port=1), None)
    assert (refused.failed_at, unknown.failed_at, nonsense.failed_at) == ("connection", "name", "name")


def test_a_certificate_is_checked_as_the_agent_will(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "localhost")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    for ca_file, failed_at in ((certificate, ""), (None, "certificate")):
        with _listening(tls) as port:
            end = LinkTarget(name="a", host="localhost", port=port, is_secure=True, ca_file=ca_file)
            assert gather_link(end, None).failed_at == failed_at


def test_a_folder_is_a_destination_too(tmp_path: Path) -> None:
    assert gather_link(LinkTarget(name="a", folder=tmp_path), None).failed_at == ""
    assert gather_link(LinkTarget(name="a", folder=tmp_path / "none"), None).failed_at == "folder"


@pytest.mark.parametrize("step", ADVICE)
def test_every_step_has_its_advice(step: str) -> None:
    (finding,) = judge_link(LinkFacts(name="a", where="b:1", failed_at=step, problem="no"))
    assert finding.severity is Severity.ERROR
    assert finding.advice == ADVICE[step]


def test_a_good_link_needs_none() -> None:
    (finding,) = judge_link(LinkFacts(name="a", where="b:1"))
    assert (finding.severity, finding.advice) == (Severity.OK, "")
