import io

import pytest
from pyspark.errors import PySparkException

from ingest.spark_command import _from_log, words_of

IN_A_WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "ingest/decode.py", line 38, in _decode_batches
    data = Path(name).read_bytes()
FileNotFoundError: [Errno 2] No such file or directory: '/landing/a.hga'

\tat org.apache.spark.api.python.BasePythonRunner (PythonRunner.scala:599)
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero.\n== SQL ==\nSELECT 1/0\n", "[DIVIDE_BY_ZERO] Division by zero."),
        (
            "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: the disk is full\n\n=== S",
            "the disk is full",
        ),
        (IN_A_WORKER, "FileNotFoundError: [Errno 2] No such file or directory: '/landing/a.hga'"),
        ("", "PySparkException"),
    ],
)
def test_of_many_lines_the_one_with_the_cause_is_shown(text: str, words: str) -> None:
    assert words_of(PySparkException(message=text)) == words


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            b"WARNING: Using incubator modules\nInvalid maximum heap size: -Xmxbanana\nError: No virtual machine.\n",
            "Invalid maximum heap size: -Xmxbanana",
        ),
        (
            b"26/11/16 WARN Utils: loopback\nUsing Spark's default log4j profile\nsome words\n"
            b'Exception in thread "main" org.apache.spark.SparkException: Master must start\n\tat org.apache\n',
            'Exception in thread "main" org.apache.spark.SparkException: Master must start',
        ),
        (b"", "Java said nothing"),
    ],
)
def test_why_spark_did_not_start_is_found_in_what_it_said(log: bytes, words: str) -> None:
    assert _from_log(io.BytesIO(log)) == f"Spark did not start: {words}"
