"""The agent's configuration: `headgate.toml`, read and checked whole before anything opens."""
