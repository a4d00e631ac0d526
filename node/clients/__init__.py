"""Clients on websockets: the connection endpoint, the session of one client, and messages made on a client's behalf."""
