"""The service on the device: collect → pack → commit → journal → publish, archive → ship, and `headgate`."""
