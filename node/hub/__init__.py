"""The hub: published messages are checked, stored and passed on to subscribers, each once."""
