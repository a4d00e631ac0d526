"""The running service: lifecycle, status, logs, status page and local control."""
