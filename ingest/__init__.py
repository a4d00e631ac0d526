"""The centre: the collector takes archives in, and the Spark job makes tables of them that account for each message."""
