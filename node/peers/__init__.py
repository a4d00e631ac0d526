"""Shared by nodes and trackers: the handshake, the message dialects, and the websocket connections."""
