import asyncio
import errno
import os
import socket
import ssl

import pytest

from runtime.errors import ConfigError, connection_error_text
from testbed.processes import free_port


def test_one_problem_is_a_line_and_problems_of_a_file_are_listed_below_its_name() -> None:
    assert str(ConfigError("a: wrong")) == "a: wrong"
    assert str(ConfigError("a: wrong", "b: wrong")) == "2 problems\n  a: wrong\n  b: wrong"
    assert str(ConfigError("a: wrong", file="x.toml")) == "x.toml: 1 problem\n  a: wrong"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "cannot resolve node.example"),
        (TimeoutError(), "no answer in time"),
        (TimeoutError(errno.ETIMEDOUT, "Connection timed out"), "no answer in time"),
        (OSError(errno.ENETUNREACH, "Connect call failed ('10.0.0.1', 1)"), os.strerror(errno.ENETUNREACH)),
        (ssl.SSLCertVerificationError(1, "certificate has expired"), "certificate has expired"),
        (ConnectionResetError("the node closed it"), "the node closed it"),
        (EOFError(), "EOFError"),
    ],
)
def test_the_reason_of_a_failed_connection_has_no_number(error: Exception, text: str) -> None:
    assert connection_error_text(error, "node.example") == text


def test_a_refused_connection_of_asyncio_is_named_as_that() -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its text is what is tested
        asyncio.run(asyncio.open_connection("127.0.0.1", free_port()))
    assert connection_error_text(caught.value, "127.0.0.1") == "Connection refused"
