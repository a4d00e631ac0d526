"""The errors that start in the ingest. Each has one reaction: say it and stop, with its own exit code."""

from protocol.errors import HeadgateError


class IngestError(HeadgateError):
    """A setting, a key file or a table is not what the job needs. The operator must change something."""

    exit_code = 78


class NoJava(HeadgateError):
    """There is no Java runtime that Spark can use."""

    exit_code = 69


class IngestBusy(HeadgateError):
    """Another run writes these tables."""

    exit_code = 69


class SparkFailed(HeadgateError):
    """Spark did not start, or could not go on."""

    exit_code = 69
