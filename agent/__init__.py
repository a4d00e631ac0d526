"""The service on the device: collect → wrap → journal → publish, archive → ship; and the `headgate` command."""
