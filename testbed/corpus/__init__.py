"""Archives as devices write them, with a record of every message, for tests and benchmarks of the ingest."""
