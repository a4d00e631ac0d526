"""Process plumbing that agent, node, ingest and drivers share, written once. Imports nothing of ours but `protocol`."""
