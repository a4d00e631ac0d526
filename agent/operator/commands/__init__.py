"""One module per subcommand of `headgate` that belongs to the device."""
