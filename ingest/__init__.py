"""The centre: the collector takes archives in, and the Spark job makes tables of them that account for every message."""
