"""The Streamr protocol: every message of its stream, control, network and tracker layers as values.

Each layer has one function that reads text from the network, and every value writes itself with `serialize()`. Names
are imported from the sub-package or module that defines them, so that a device loads no layer that it does not use:

    stream_message/   the signed message of a stream: value, codec, signature, writer of a chain
    group_keys/       encrypted content, and the exchange of its keys
    control/          the messages between a client and a node
    network, tracker  the messages between nodes, and between a node and a tracker
    ordering          puts the messages of a stream in order, and detects gaps
"""
