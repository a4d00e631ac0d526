"""The operator's tools: commands, doctor, backups and reports."""
