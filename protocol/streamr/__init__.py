"""The Streamr protocol: every message of its stream, control, network and tracker layers as values.

Each layer has one function that reads text from the network, and every value writes itself with `serialize()`. Names
are imported from the sub-package or module that has them, so that a device loads no layer that it does without:

    stream_message/   the signed message of a stream: value, codec, signature, writer of a chain
    group_keys/       encrypted content, and how a subscriber gets the keys to it
    control/          what a client and a node say to each other
    network, tracker  what nodes say to each other and to a tracker
    ordering          the messages of a stream in their order, and the gaps between them
"""
