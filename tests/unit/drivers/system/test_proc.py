"""The kernel's texts, as it writes them."""

from hypothesis import given
from hypothesis import strategies as st

from drivers.system.proc import CpuTimes, Traffic, parse_cpu, parse_load, parse_memory, parse_traffic, parse_uptime

STAT = "cpu  2255 34 2290 22625563 6290 127 456 0 0 0\ncpu0 1132 34 1441 11311718 3675 127 438 0 0 0\nintr 1462898\n"
NET_DEV = """Inter-|   Receive                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:     500  5  0  0  0  0  0  0     500  5  0  0  0  0  0  0
  eth0: 1234567 4321 0 0  0  0  0  0  765432 1234 0 0 0  0  0  0
 wlan0:8888 1 0 0 0 0 0 0 9999 1 0 0 0 0 0 0
  ifb0:       0  0  0  0  0  0  0  0       0  0  0  0  0  0  0  0
"""


def test_busy_time_is_all_but_idle_and_waiting() -> None:
    times = parse_cpu(STAT)
    assert times == CpuTimes(busy=2255 + 34 + 2290 + 127 + 456, total=2255 + 34 + 2290 + 22625563 + 6290 + 127 + 456)
    assert CpuTimes(150, 1100).use_percent_since(CpuTimes(100, 1000)) == 50.0
    assert times is not None
    assert times.use_percent_since(times) is None


def test_memory_is_in_bytes() -> None:
    memory = parse_memory(
        "MemTotal:         948108 kB\nMemFree:  1 kB\nMemAvailable:     512000 kB\nHugePages_Total:   0\n"
    )
    assert (memory["MemTotal"], memory["MemAvailable"]) == (948108 * 1024, 512000 * 1024)


def test_interfaces_have_their_bytes_and_the_loopback_is_left_out() -> None:
    assert parse_traffic(NET_DEV) == {"eth0": Traffic(1234567, 765432), "wlan0": Traffic(8888, 9999)}


def test_load_and_uptime_are_the_first_numbers() -> None:
    assert (parse_load("0.52 0.58 0.59 1/467 12345"), parse_uptime("350735.47 234388.90")) == (0.52, 350735.47)


@given(st.text(max_size=200))
def test_any_text_gives_something_or_nothing(text: str) -> None:
    parse_cpu(text), parse_memory(text), parse_traffic(text), parse_load(text), parse_uptime(text)
