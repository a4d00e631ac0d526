"""The publish stage: one contract, four publishers, and one loop that drives each of them.

    contract        the promises of a publisher           sender       the loop: cursor → publisher → acknowledgement
    websocket       a node, control version 2            feed         the records: cursor, and those in flight
    http            a node, signed publish               rotation     rotated files
    mqtt            a broker, QoS 1                      quarantine   what a destination refused, and why
    file            lines or a directory                 node_*       the addresses, sessions and sockets of a node
    echoes          acknowledgement by echo

The publishers are imported from their modules, so that a device loads only what it uses.
"""

from agent.publish.contract import Acknowledged, Outcome, Publisher, RejectedRun, run_of
from agent.publish.feed import CursorSource, JournalCall
from agent.publish.quarantine import Quarantine
from agent.publish.sender import Clocks, LinkStatus, Sender, SenderSettings

__all__ = [
    "Acknowledged",
    "Clocks",
    "CursorSource",
    "JournalCall",
    "LinkStatus",
    "Outcome",
    "Publisher",
    "Quarantine",
    "RejectedRun",
    "Sender",
    "SenderSettings",
    "run_of",
]
