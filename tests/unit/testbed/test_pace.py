from testbed.cable import LinePace


def test_without_a_rate_everything_passes_at_once() -> None:
    assert LinePace(None).passed(1000, 0.0) == 1000


def test_a_line_carries_a_tenth_of_its_rate_in_bytes() -> None:
    pace = LinePace(10240)
    assert pace.passed(5000, 10.0) == 0
    assert pace.passed(5000, 10.5) == 512
    assert pace.passed(4488, 11.0) == 512
    assert pace.byte_s == 1 / 1024


def test_small_steps_lose_nothing() -> None:
    pace = LinePace(10240)
    waiting = 2000
    for step in range(1025):
        waiting -= pace.passed(waiting, step * 0.75 / 1024)
    assert waiting == 2000 - 768


def test_an_idle_line_saves_up_no_credit() -> None:
    pace = LinePace(10240)
    assert pace.passed(0, 0.0) == 0
    assert pace.passed(100, 60.0) == 0
    assert pace.passed(100, 60.0625) == 64
