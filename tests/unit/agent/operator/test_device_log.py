from agent.operator.device_log import describe_log, describe_origin
from tests.support.statuses import log


def test_it_says_how_long_the_log_is_and_what_the_collector_holds() -> None:
    text = describe_log(log(checkpoint_at_ms=8_000), 43_000)
    assert text == "abababab…: 3 archives, the collector holds 1 without a hole, it accepted a checkpoint 35 s ago"
    assert describe_log(log(checkpoint_at_ms=None, held_size=None), 43_000) == "abababab…: 3 archives"


def test_a_log_that_continues_another_says_which_and_why() -> None:
    assert describe_origin(log()) == ""
    continued = log(continues="cd" * 16, reason="the journal is a new one")
    assert describe_origin(continued) == "the log cdcdcdcd… is continued by a new one: the journal is a new one"
    rebuilt = log(reason="the archive state was lost or damaged")
    assert describe_origin(rebuilt) == "there is a new one: the archive state was lost or damaged"
