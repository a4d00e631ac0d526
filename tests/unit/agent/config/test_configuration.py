from pathlib import Path

import pytest

from agent.config.configuration import find_config, load_config
from agent.config.publishers import FileConfig
from agent.errors import ConfigError

GOOD = """
[device]
name = "bench"
data_directory = "data"
[drivers.boiler]
driver = "simulated"
signals = [{ quantity = "temperature", kind = "walk" }]
[publishers.out]
kind = "file"
path = "out.jsonl"
"""


def _write(folder: Path, text: str) -> Path:
    path = folder / "headgate.toml"
    path.write_text(text)
    return path


def _problems(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(_write(folder, text))
    return str(caught.value)


def test_relative_paths_count_from_the_file(tmp_path: Path) -> None:
    config = load_config(_write(tmp_path, GOOD))
    assert config.journal_directory == tmp_path / "data" / "journal"
    publisher = config.publishers["out"]
    assert isinstance(publisher, FileConfig)
    assert publisher.path == tmp_path / "out.jsonl"


def test_each_publisher_has_a_cursor_and_the_archiver_one_more(tmp_path: Path) -> None:
    assert load_config(_write(tmp_path, GOOD)).cursors == ("out",)
    assert load_config(_write(tmp_path, GOOD + "[archive]\n")).cursors == ("out", "archive")


def test_all_problems_are_reported_at_once_with_their_paths(tmp_path: Path) -> None:
    text = GOOD.replace('kind = "file"', 'kind = "fiel"').replace("signals =", "signal =")
    reported = _problems(tmp_path, text + '[journal]\nmax_megabyte = 5\nwhen_full = "explode"\n[ship]\n')
    assert "publishers.out.kind: 'fiel' is not a kind of publisher; did you mean file?" in reported
    assert "drivers.boiler.signal: unknown setting; did you mean signals?" in reported
    assert "journal.max_megabyte: unknown setting; did you mean max_megabytes?" in reported
    assert "journal.when_full: 'explode' is not one of shed, stop_reading" in reported
    assert "ship.url: set either url or directory" in reported


@pytest.mark.parametrize(
    ("added", "reported"),
    [
        ("[jurnal]\n", "jurnal: unknown setting; did you mean journal?"),
        ("[journal]\nmax_megabytes = 1\nsegment_kilobytes = 1024\n", "journal: max_bytes 1048576 leaves room for"),
        ("[journal]\nsegment_kilobytes = 63\n", "journal.segment_kilobytes: 63 is not between 64 and 65536"),
        ('[[streams]]\nstream = "{room}"\n', "streams[0].stream: a placeholder is wrong"),
        ('[[streams]]\nstream = "a/{sensor}"\nencryption = "aes"\n', "streams[0].stream: a placeholder is wrong"),
        ('[[streams]]\nstream = "a\\u0007b"\n', "streams[0].stream: stream id 'a\\x07b' is not printable text"),
        ('[[streams]]\nstream = "{"\n', "streams[0].stream: a placeholder is wrong: "),
        ('[[streams]]\nstream = "a"\nreaders = ["0x1"]\n', "streams[0].readers[0]: '0x1' does not look like"),
        (
            '[publishers.n]\nkind = "websocket"\nurl = "ftp://x"\n',
            "publishers.n.url: 'ftp://x' does not begin with http",
        ),
        ('[publishers.n]\nkind = "websocket"\nurl = "ws://a..b"\n', "publishers.n.url: "),
        (
            '[publishers.n]\nkind = "mqtt"\nhost = "h"\nuse_tls = true\n',
            "publishers.n.use_tls: unknown setting; did you mean tls?",
        ),
        (
            '[publishers.n]\nkind = "mqtt"\nhost = "h"\ncertificate_file = "c"\n',
            "publishers.n.certificate_file: unknown setting; did you mean cert_file?",
        ),
        (
            '[publishers.n]\nkind = "mqtt"\nhost = "h"\ncert_file = "c"\n',
            "publishers.n.tls: off, but certificates are given",
        ),
        ('[publishers.n]\nkind = "mqtt"\nhost = "h"\npassword_file = "c"\n', "publishers.n.username: missing"),
        (
            '[drivers.b]\ndriver = "mqtt"\nhost = "h"\npresets = ["tasmota"]\nuse_tls = true\n',
            "drivers.b.use_tls: unknown setting; did you mean tls?",
        ),
        ('[publishers."a b"]\nkind = "file"\npath = "x"\n', "publishers.\"a b\": 'a b' does not look like"),
        ('[ship]\ndirectory = "x"\n', "archive: missing; [ship] requires [archive]"),
        ('[archive]\n[ship]\nurl = "http://x"\n', "ship.collector_key: missing"),
        ('[archive]\n[ship]\nurl = "http://x:80a"\ncollector_key = "k"\n', "ship.url: not the URL of a collector"),
        ('[archive]\n[ship]\nurl = "http://[::1"\ncollector_key = "k"\n', "ship.url: not the URL of a collector"),
        ('[archive]\n[ship]\nurl = "http://a..b"\ncollector_key = "k"\n', "ship.url: not the URL of a collector"),
        ('[archive]\n[ship]\nurl = "http://x/ü"\ncollector_key = "k"\n', "ship.url: not the URL of a collector"),
        (
            '[archive]\n[publishers.archive]\nkind = "file"\npath = "x"\n',
            "publishers.archive: this name is reserved",
        ),
        ('[page]\nlisten = "0.0.0.0:7080"\n', "page.token_file: missing; it is required because 0.0.0.0 is"),
        ('[page]\nlisten = "[::]:7080"\n', "page.token_file: missing; it is required because :: is"),
        (
            '[page]\nlisten = "127.0.0.1.example:7080"\n',
            "page.token_file: missing; it is required because 127.0.0.1.example is",
        ),
        ('[page]\nlisten = "127.0.0.1:99999"\n', "page.listen: port 99999 is above 65535"),
        ('[page]\nlisten = "a..b:1"\n', "page.listen: 'a..b:1' does not look like 127.0.0.1:7080, or off"),
        ('[page]\nlisten = "7080"\n', "page.listen: '7080' does not look like 127.0.0.1:7080, or off"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path: Path, added: str, reported: str) -> None:
    assert reported in _problems(tmp_path, GOOD + added)


@pytest.mark.parametrize("stream", ["{foo}", "{", "{address.x}", "a\\u0007", 300 * "x"])
def test_an_events_stream_that_cannot_be_one_is_refused(tmp_path: Path, stream: str) -> None:
    text = GOOD.replace('name = "bench"', f'name = "bench"\nevents_stream = "{stream}"')
    assert "device.events_stream: " in _problems(tmp_path, text)


@pytest.mark.parametrize("kind", ["websocket", "http"])
def test_a_password_in_the_address_of_a_node_is_refused_and_not_repeated(tmp_path: Path, kind: str) -> None:
    text = GOOD + f'[publishers.n]\nkind = "{kind}"\nurl = "http://me:hunter2@x:80"\n'
    reported = _problems(tmp_path, text)
    assert "publishers.n.url: not a node URL; expected" in reported
    assert "hunter2" not in reported


def test_a_password_in_the_address_of_a_collector_is_refused_and_not_repeated(tmp_path: Path) -> None:
    text = GOOD + '[archive]\n[ship]\nurl = "http://me:hunter2@x:80"\ncollector_key = "k"\n'
    reported = _problems(tmp_path, text)
    assert "ship.url: not a collector URL; expected" in reported
    assert "hunter2" not in reported


def test_a_file_that_is_no_toml_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "not TOML" in _problems(tmp_path, "[device\n")


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    assert find_config({"HEADGATE_CONFIG": "/x/y.toml"}) == Path("/x/y.toml")
    own = tmp_path / "headgate" / "headgate.toml"
    own.parent.mkdir()
    own.touch()
    assert find_config({"XDG_CONFIG_HOME": str(tmp_path)}) in (own, Path("/etc/headgate/headgate.toml"))


@pytest.mark.parametrize("listen", ["off", "127.0.0.1:0", "127.9.9.9:1", "localhost:7080", "[::1]:7080"])
def test_the_page_needs_no_token_where_only_this_machine_reaches_it(tmp_path: Path, listen: str) -> None:
    config = load_config(_write(tmp_path, GOOD + f'[page]\nlisten = "{listen}"\n'))
    assert config.page.listen == listen


def test_the_page_may_be_anywhere_with_a_token(tmp_path: Path) -> None:
    text = GOOD + '[page]\nlisten = "0.0.0.0:7080"\ntoken_file = "page.token"\n'
    page = load_config(_write(tmp_path, text)).page
    assert (page.host, page.port, page.token_file) == ("0.0.0.0", 7080, tmp_path / "page.token")


def test_relative_paths_of_a_driver_count_from_the_configuration_s_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service's own folder is /, and that of the operator who checks is anywhere."""
    monkeypatch.chdir("/")
    path = tmp_path / "headgate.toml"
    path.write_text(
        '[device]\nname = "bench"\n[drivers.broker]\ndriver = "mqtt"\nhost = "h"\npresets = ["tasmota"]\n'
        'username = "me"\npassword_file = "broker.password"\nca_file = "/etc/ca.pem"\ntls = "on"\n'
    )
    settings = load_config(path).build_drivers()["broker"].settings  # type: ignore[attr-defined]
    assert settings.password_file == tmp_path / "broker.password"
    assert settings.ca_file == Path("/etc/ca.pem")
