"""The tracker: nodes report their address and streams, and it assigns them neighbours."""
