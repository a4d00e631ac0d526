"""From the journal to a far end, with proof: one contract, four publishers, one loop that drives any of them.

    contract        what a publisher promises            delivery     the loop: cursor → publisher → acknowledgement
    websocket       a node, control version 2            window       what is under way
    http            a node, signed publish               source       a cursor, shared fairly by its lanes
    mqtt            a broker, QoS 1                      backoff      how long to wait, how fast to go
    file            lines or a directory                 quarantine   what a far end refused, and why
    echoes          proof without acknowledgement        node_*       the addresses, sessions and sockets of a node

The publishers are imported from their modules, so that a device loads only what it uses.
"""

from agent.publish.backoff import Backoff
from agent.publish.contract import Acknowledged, Outcome, Publisher, Refused, run_of
from agent.publish.delivery import Clocks, Delivery, DeliverySettings, LinkStatus
from agent.publish.quarantine import Quarantine
from agent.publish.source import CursorSource, JournalCall

__all__ = [
    "Acknowledged",
    "Backoff",
    "Clocks",
    "CursorSource",
    "Delivery",
    "DeliverySettings",
    "JournalCall",
    "LinkStatus",
    "Outcome",
    "Publisher",
    "Quarantine",
    "Refused",
    "run_of",
]
