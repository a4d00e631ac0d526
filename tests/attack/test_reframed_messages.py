"""Messages of a real agent, replayed to a real node with their signed text cut into other fields: none is delivered."""

from pathlib import Path

import pytest

from agent.keys import Secret, load_keys
from protocol.ethereum.signer import Signer
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message, verify
from tests.support.destinations import NodeDestination
from tests.support.reframing import moved_into_chain_id
from tests.support.running_agent import Agent, wait_until
from tests.support.small_client import SmallClient

pytestmark = pytest.mark.slow

ATTACKER = Signer(b"\x66" * 32)
END = f"{ATTACKER.address}/end"
COUNT = 10


def test_a_node_delivers_no_message_whose_previous_reference_was_moved_into_its_chain_id(tmp_path: Path) -> None:
    node = NodeDestination(tmp_path, "websocket")
    node.start()
    try:
        publisher = f'[publishers.node]\nkind = "websocket"\nurl = "http://{node.url}"\n'
        agent = Agent.make(tmp_path / "agent", rate_hz=50, extra=publisher)
        with agent.start():
            wait_until(lambda: len(readings(agent)) > COUNT, "the agent publishes")
        seen = [message for message in readings(agent) if message.prev_msg_ref is not None][:COUNT]
        stream = seen[0].message_id.stream_id
        attacker = SmallClient(node.url, ATTACKER)
        before = count_stored(node, agent, stream)
        cuts = [cut for message in seen for cut in moved_into_chain_id(message)]
        cuts = [cut for cut in cuts if cut.message_id.msg_chain_id != seen[0].message_id.msg_chain_id]
        assert len(cuts) >= COUNT
        assert all(verify(cut) for cut in cuts)  # each has a true signature of the device
        attacker.make_public_stream(END)
        attacker.subscribe(END)
        last = StreamMessage(MessageID(END, 0, seen[0].message_id.timestamp, 0, ATTACKER.address, "chain"), '"end"')
        attacker.publish(*cuts, sign_message(last, ATTACKER))
        attacker.read_until("end")  # the node has dealt with all that came before
        attacker.close()
        assert count_stored(node, agent, stream) == before
    finally:
        node.stop()


def readings(agent: Agent) -> list[StreamMessage]:
    return [message for message in agent.messages() if message.message_id.stream_id.endswith("/plant")]


def count_stored(node: NodeDestination, agent: Agent, stream: str) -> int:
    keys = load_keys(agent.key_file, lambda: Secret(b""))
    client = SmallClient(node.url, Signer(keys.identity.reveal()))
    try:
        return len(client.resend_last(stream, 10_000))
    finally:
        client.close()
