"""The whole picture on one machine, in about two minutes, for someone who sees it for the first time."""
