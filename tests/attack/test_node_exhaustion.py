"""One throwaway identity, or one anonymous client, against the space and the permissions of a running node."""

import asyncio
import json
from pathlib import Path
from urllib.parse import quote

from node import NodeConfig
from node.access.policy import Access, StreamCreation
from node.config import Retention, StreamConfig
from node.streams import PUBLIC, Stream
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import StreamMessage
from tests.effort import effort
from tests.support.node_bench import ALICE, BOB, NodeUnderTest, hear, publish_request, running_node

STREAM = "plant"
RACES = effort(test=2, soak=500)
FLOOD_MESSAGES = effort(test=60, soak=2_000)


def path(stream_id: str) -> str:
    return f"/streams/{quote(stream_id, safe='')}"


def test_a_throwaway_identity_cannot_use_up_the_streams_and_permissions_of_the_node(tmp_path: Path) -> None:
    async def attack() -> None:
        async with running_node(tmp_path, max_streams_per_owner=5, max_grants_per_owner=40) as node:
            token, bobs = await node.log_in(ALICE), await node.log_in(BOB)
            answers = [
                await node.call("POST", "/streams", {"id": f"{ALICE.address}/{n}"}, token=token) for n in range(8)
            ]
            assert [answer.status for answer in answers] == [200] * 5 + [400] * 3
            assert "limits.max_streams_per_owner" in answers[-1].json()["error"]
            grants = [await grant(node, token, f"{ALICE.address}/0", f"0x{n:040x}") for n in range(1, 15)]
            assert [status for status, _ in grants] == [200] * 10 + [400] * 4
            assert "limits.max_grants_per_owner" in grants[-1][1]
            await node.make_stream(bobs, f"{BOB.address}/honest")
            metrics = (await node.call("GET", "/metrics")).body.decode()
            assert "headgate_node_quota_streams_refused_total 3" in metrics
            assert "headgate_node_quota_grants_refused_total 4" in metrics

    asyncio.run(attack())


async def grant(node: NodeUnderTest, token: str, stream_id: str, user: str) -> tuple[int, str]:
    body = {"operation": "stream_publish", "user": user}
    answer = await node.call("POST", f"{path(stream_id)}/permissions", body, token=token)
    return answer.status, answer.body.decode()


def test_a_permission_granted_while_the_stream_is_deleted_does_not_rule_the_next_one(tmp_path: Path) -> None:
    config = NodeConfig(access=Access(stream_creation=StreamCreation.ANY_ID))

    async def attack(node: NodeUnderTest, token: str, bobs: str) -> list[object]:
        await node.make_stream(token, STREAM)
        await asyncio.gather(
            *(grant(node, token, STREAM, ALICE.address) for _ in range(3)),
            node.call("DELETE", path(STREAM), token=token),
            *(grant(node, token, STREAM, ALICE.address) for _ in range(3)),
        )
        await node.make_stream(bobs, STREAM)
        answer = await node.call("GET", f"{path(STREAM)}/permissions", token=bobs)
        await node.call("DELETE", path(STREAM), token=bobs)
        return [entry for entry in answer.json() if entry["user"] != BOB.address]

    async def attack_again_and_again() -> None:
        async with running_node(tmp_path, config) as node:
            token, bobs = await node.log_in(ALICE), await node.log_in(BOB)
            for _ in range(RACES):
                assert await attack(node, token, bobs) == []

    asyncio.run(attack_again_and_again())


def test_a_flood_of_anonymous_chains_pushes_out_no_other_users_messages(tmp_path: Path) -> None:
    public = StreamConfig(stream=Stream(id=STREAM), publishers=(PUBLIC,), subscribers=(PUBLIC,))
    config = NodeConfig(streams=(public,), retention=Retention(max_megabytes=1))

    async def attack() -> None:
        async with running_node(tmp_path, config, max_chains_per_address=FLOOD_MESSAGES) as node:
            honest = await node.log_in(BOB)
            for n in range(5):
                assert (await node.call("POST", f"{path(STREAM)}/data", {"honest": n}, token=honest)).status == 200
            async with node.connect() as client:
                for n in range(FLOOD_MESSAGES):
                    await client.send(json.dumps(publish_request(anonymous_message(n))))
                assert "limits.max_chains_per_address" in json.dumps(await hear(client))
            await node.node.retainer.delete_what_is_due()
            stored = (await node.call("GET", f"{path(STREAM)}/data/partitions/0/last?count=9999")).json()
            assert [entry["content"]["honest"] for entry in stored if "honest" in entry["content"]] == list(range(5))
            assert 5 < len(stored) < FLOOD_MESSAGES
            assert node.node.storage.chain_quota.total == len(stored) - 4  # one of the flood each, one of all others
            assert await node.node.storage.used_bytes() <= 1_000_000

    asyncio.run(attack())


def anonymous_message(n: int) -> StreamMessage:
    return StreamMessage(MessageID(STREAM, 0, n, 0, "anonymous", f"c{n}"), f'{{"flood":"{"x" * 50_000}"}}')
