"""The overlay: links to neighbour nodes, over which messages are forwarded from node to node."""
