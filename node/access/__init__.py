"""Access to the node: the access policy, login sessions, and the check of Host and Origin headers."""
