"""Events: signed messages of the agent about itself, its sources and its losses."""
