"""The centre: the collector takes archives in, and the Spark job turns them into tables that account for every message."""
