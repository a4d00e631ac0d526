"""What `headgate` answers to the shell. Released numbers never change meaning; 64 and up follow sysexits.h."""

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    NO = 1  # a question was asked and the answer is no: a signature is wrong, a chain is broken
    USAGE = 2  # the command line is wrong
    BAD_DATA = 65  # input breaks its format
    NO_INPUT = 66  # a file to read does not exist
    UNAVAILABLE = 69  # a device or the far end of a link does not answer
    BUG = 70  # a fault of Headgate itself; the traceback is on stderr
    IO_ERROR = 74  # a disk or a pipe failed
    NO_PERMISSION = 77  # the operating system refuses
    BAD_CONFIG = 78  # the operator must edit a file; systemd does not restart on this one
    INTERRUPTED = 130  # Ctrl-C
