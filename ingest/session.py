"""The Spark session, with what every run of the ingest needs and nothing that depends on where it runs."""

import os
import sys
from typing import Final

from pyspark.sql import SparkSession

from ingest.java import find_java_home

OPTIONS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.files.maxPartitionBytes": "24m",  # several archives per task, but not all in one
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
}

# In a run the JVM leads and Python works: to compile it twice, the second time well, costs more than that saves.
RUN_OPTIONS: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def open_session(master: str | None, options: dict[str, str] | None = None) -> SparkSession:
    """A session on `master`, or on what `spark-submit` or a surrounding program has chosen, else on this machine.

    Raises: NoJava.
    """
    if not is_submitted():
        os.environ["JAVA_HOME"] = str(find_java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("headgate ingest")
    if master is not None or not is_submitted():
        builder = builder.master(master or "local[*]")
    if (master or "local").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else need reach it
    for name, value in {**OPTIONS, **(options or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def is_submitted() -> bool:
    """Whether spark-submit, which knows the master, started this process."""
    return "SPARK_SUBMIT" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
