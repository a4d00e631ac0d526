"""The REST interface over real sockets."""

import asyncio
import json
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from node import NodeConfig
from node.access.policy import Access, StreamCreation
from node.config import ApiKey
from protocol.ethereum.hashing import checksum_address
from protocol.streamr.stream_message import parse_stream_message
from tests.support.node_bench import ALICE, BOB, Chain, NodeUnderTest, running_node

STREAM = f"{ALICE.address}/boiler"
PATH = "/streams/" + quote(STREAM, safe="")


def test_login_by_challenge_and_logout(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            address = checksum_address(ALICE.address)
            challenge = await node.call("POST", f"/login/challenge/{address}")
            assert challenge.status == 200
            assert set(challenge.json()) == {"id", "challenge", "expires"}
            token = await node.log_in(ALICE)
            assert (await node.call("GET", "/users/me", token=token)).json()["username"] == ALICE.address
            assert (await node.call("POST", "/logout", token=token)).status == 204
            assert (await node.call("GET", "/users/me", token=token)).status == 401
            assert (await node.call("GET", "/users/me")).status == 401
            assert (await node.call("POST", "/login/challenge/unknown")).status == 400
            assert (await node.call("POST", "/login/response", {"challenge": 3})).status == 400
            wrong = {"challenge": challenge.json(), "signature": "0x", "address": address}
            assert (await node.call("POST", "/login/response", wrong)).status == 401

    asyncio.run(scenario())


def test_an_api_key_in_the_authorization_header_identifies_the_caller(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("a key that is hard to guess")
    key_file.chmod(0o600)
    config = NodeConfig(api_keys=(ApiKey(address=ALICE.address, key_file=key_file),))
    cases = {
        "token a key that is hard to guess": (200, ALICE.address),
        "Token a key that is hard to guess": (200, ALICE.address),
        "token a guess": (401, "the API key is unknown"),
        "token": (400, "must be 'Bearer TOKEN' or 'token KEY'"),
        "Basic YTpi": (400, "must be 'Bearer TOKEN' or 'token KEY'"),
    }

    async def scenario() -> None:
        async with running_node(tmp_path / "data", config) as node:
            for header, (status, text) in cases.items():
                answer = await node.call("GET", "/users/me", headers={"Authorization": header})
                assert answer.status == status, header
                assert text in answer.body.decode()

    asyncio.run(scenario())


def test_a_stream_lives_from_making_to_deleting(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token, bobs = await node.log_in(ALICE), await node.log_in(BOB)
            made = await node.call("POST", "/streams", {"id": STREAM, "name": "boiler", "partitions": 2}, token=token)
            assert made.status == 200
            assert (await node.call("GET", PATH, token=token)).json() == made.json()
            assert made.json()["requireSignedData"] is False
            assert (await node.call("GET", f"/streams/{STREAM}", token=token)).json() == made.json()
            assert (await node.call("GET", PATH, token=bobs)).status == 403
            assert (await node.call("GET", PATH)).status == 403
            unknown = await node.call("GET", "/streams/unknown", token=token)
            assert (unknown.status, unknown.json()["code"]) == (404, "NOT_FOUND")
            assert (await node.call("POST", "/streams", {"id": STREAM}, token=token)).status == 400
            assert (await node.call("POST", "/streams", {"id": f"{BOB.address}/x"}, token=token)).status == 403
            assert (await node.call("POST", "/streams", {"id": STREAM})).status == 401
            assert (
                await node.call("POST", "/streams", {"id": STREAM + "2", "partitions": 0}, token=token)
            ).status == 400
            changed = await node.call("PUT", PATH, {"requireSignedData": True}, token=token)
            assert (changed.json()["requireSignedData"], changed.json()["partitions"]) == (True, 2)
            assert (await node.call("PUT", PATH, {}, token=bobs)).status == 403
            listed = (await node.call("GET", "/streams?name=boiler&public=false", token=token)).json()
            assert [stream["id"] for stream in listed] == [STREAM]
            assert (await node.call("GET", "/streams", token=bobs)).json() == []
            made_up = (await node.call("POST", "/streams", {"name": "x"}, token=token)).json()["id"]
            assert made_up.startswith(ALICE.address + "/")
            assert (await node.call("DELETE", PATH, token=bobs)).status == 403
            assert (await node.call("DELETE", PATH, token=token)).status == 204
            assert (await node.call("GET", PATH, token=token)).status == 404

    asyncio.run(scenario())


def test_permissions_are_given_listed_checked_and_taken_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token, bobs = await node.log_in(ALICE), await node.log_in(BOB)
            await node.make_stream(token, STREAM)
            assert (await node.call("GET", f"{PATH}/publisher/{ALICE.address}")).status == 200
            assert (await node.call("GET", f"{PATH}/subscriber/{BOB.address}")).status == 404
            body = {"operation": "stream_subscribe", "user": checksum_address(BOB.address)}
            assert (await node.call("POST", f"{PATH}/permissions", body, token=bobs)).status == 403
            given = (await node.call("POST", f"{PATH}/permissions", body, token=token)).json()
            assert given == {"id": given["id"], "operation": "stream_subscribe", "user": BOB.address}
            assert (await node.call("GET", f"{PATH}/subscriber/{checksum_address(BOB.address)}")).status == 200
            subscribers = (await node.call("GET", f"{PATH}/subscribers", token=token)).json()
            assert subscribers == {"addresses": [ALICE.address, BOB.address]}
            mine = (await node.call("GET", f"{PATH}/permissions/me", token=bobs)).json()
            assert [entry["operation"] for entry in mine] == ["stream_subscribe"]
            assert len((await node.call("GET", f"{PATH}/permissions", token=token)).json()) == 7
            for operation in ("stream_get", "stream_publish", "stream_edit", "stream_delete"):
                await node.grant(token, STREAM, operation, BOB.address)
            assert (await node.call("POST", f"{PATH}/permissions", body, token=bobs)).status == 403
            assert (await node.call("DELETE", f"{PATH}/permissions/{given['id']}", token=bobs)).status == 403
            assert (await node.call("GET", f"{PATH}/permissions", token=bobs)).status == 403
            assert (await node.call("DELETE", f"{PATH}/permissions/{given['id']}", token=token)).status == 204
            assert (await node.call("DELETE", f"{PATH}/permissions/{given['id']}", token=token)).status == 404
            assert (await node.call("GET", f"{PATH}/subscriber/{BOB.address}")).status == 404
            for wrong in ({"operation": "fly", "user": BOB.address}, {"operation": "stream_get", "user": "bob"}, {}):
                assert (await node.call("POST", f"{PATH}/permissions", wrong, token=token)).status == 400
            anonymous = {"operation": "stream_get", "anonymous": True}
            public = (await node.call("POST", f"{PATH}/permissions", anonymous, token=token)).json()
            assert public == {"id": public["id"], "operation": "stream_get", "anonymous": True}
            assert (await node.call("GET", PATH)).status == 200

    asyncio.run(scenario())


def test_what_a_broker_asks_of_its_backend(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM, requireSignedData=True)
            validation = (await node.call("GET", f"{PATH}/validation")).json()
            assert validation == {
                "id": STREAM, "partitions": 1, "requireSignedData": True, "requireEncryptedData": False,
            }  # fmt: skip
            (storage_node,) = (await node.call("GET", f"{PATH}/storageNodes", token=token)).json()
            streams = await node.call("GET", f"/storageNodes/{storage_node['storageNodeAddress']}/streams", token=token)
            assert [stream["id"] for stream in streams.json()] == [STREAM]
            assert (await node.call("GET", f"{PATH}/storage/partitions/0", token=token)).status == 200
            inbox = (await node.call("GET", f"/streams/{BOB.address}", token=token)).json()
            assert (inbox["id"], inbox["partitions"]) == (BOB.address, 1)

    asyncio.run(scenario())


async def read_numbers(node: NodeUnderTest, token: str, query: str) -> list[int]:
    answer = await node.call("GET", f"{PATH}/data/partitions/0/{query}&format=raw", token=token)
    assert answer.status == 200, answer
    return [json.loads(parse_stream_message(line).content)["n"] for line in answer.body.decode().split("\n") if line]


def test_plain_content_is_published_and_read_back_in_every_format(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM)
            for n in range(5):
                answer = await node.call("POST", f"{PATH}/data?ts={1000 + n}", {"n": n}, token=token)
                assert (answer.status, answer.body) == (200, b"")
            assert await read_numbers(node, token, "last?count=2") == [3, 4]
            assert await read_numbers(node, token, "from?fromTimestamp=1002") == [2, 3, 4]
            assert await read_numbers(node, token, "from?fromTimestamp=1000&publisherId=" + BOB.address) == []
            assert await read_numbers(node, token, "range?fromTimestamp=1001&toTimestamp=1003") == [1, 2, 3]
            objects = (await node.call("GET", f"{PATH}/data/partitions/0/last?count=2", token=token)).json()
            assert [entry["content"]["n"] for entry in objects] == [3, 4]
            assert objects[0]["publisherId"] == ALICE.address
            protocol = await node.call("GET", f"{PATH}/data/partitions/0/last?format=protocol", token=token)
            assert [parse_stream_message(text).content for text in protocol.json()] == ['{"n": 4}']
            empty = await node.call("GET", f"{PATH}/data/partitions/0/from?fromTimestamp=9999", token=token)
            assert empty.json() == []
            for wrong in ("last?count=x", "range?fromTimestamp=5&toTimestamp=4", "from?", "last?format=csv"):
                assert (await node.call("GET", f"{PATH}/data/partitions/0/{wrong}", token=token)).status == 400
            assert (await node.call("GET", f"{PATH}/data/partitions/7/last", token=token)).status == 400
            assert (await node.call("GET", f"{PATH}/data/partitions/0/last")).status == 403

    asyncio.run(scenario())


def test_a_signed_message_is_published_by_http_as_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM, requireSignedData=True)
            chain = Chain(ALICE, STREAM)
            first, second = chain.next({"n": 1}), chain.next({"n": 2})
            for message in (first, second):
                query = {
                    "ts": message.message_id.timestamp,
                    "seq": message.message_id.sequence_number,
                    "address": message.message_id.publisher_id,
                    "msgChainId": message.message_id.msg_chain_id,
                    "signatureType": 2,
                    "signature": message.signature,
                }
                if message.prev_msg_ref is not None:
                    query |= {"prev_ts": message.prev_msg_ref.timestamp, "prev_seq": 0}
                url = f"{PATH}/data?{urlencode(query)}"
                assert (await node.call("POST", url, raw=message.content.encode(), token=token)).status == 200
                forged = await node.call("POST", url, raw=b'{"n": 9}', token=token)
                assert (forged.status, "signature" in forged.json()["error"]) == (400, True)
            stored = await node.call("GET", f"{PATH}/data/partitions/0/last?count=9&format=raw", token=token)
            assert stored.body.decode() == f"{first.serialize()}\n{second.serialize()}\n"

    asyncio.run(scenario())


def test_publishing_by_http_is_refused_with_a_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token, bobs = await node.log_in(ALICE), await node.log_in(BOB)
            await node.make_stream(token, STREAM)
            cases = [
                (f"{PATH}/data", b"{}", bobs, 403),
                (f"{PATH}/data", b"{}", "wrong", 401),
                ("/streams/unknown/data", b"{}", token, 404),
                (f"{PATH}/data", b"no json", token, 400),
                (f"{PATH}/data?ts=99999999999999", b"{}", token, 400),
                (f"{PATH}/data?signature=0x12", b"{}", token, 400),
            ]
            for path, body, who, status in cases:
                answer = await node.call("POST", path, raw=body, token=who)
                assert answer.status == status, (path, answer)
                assert answer.json()["error"]

    asyncio.run(scenario())


def test_a_body_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, max_message_bytes=10_000) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM)
            answer = await node.call("POST", f"{PATH}/data", raw=b'"' + b"x" * 10_000 + b'"', token=token)
            assert answer.status == 413

    asyncio.run(scenario())


@pytest.mark.parametrize("creation", list(StreamCreation))
def test_who_may_make_streams_is_a_setting(tmp_path: Path, creation: StreamCreation) -> None:
    async def scenario() -> None:
        config = NodeConfig(access=Access(stream_creation=creation, addresses=frozenset({ALICE.address})))
        async with running_node(tmp_path, config) as node:
            assert (await node.call("POST", f"/login/challenge/{BOB.address}")).status == 403
            token = await node.log_in(ALICE)
            answer = await node.call("POST", "/streams", {"id": "boiler"}, token=token)
            assert answer.status == (200 if creation is StreamCreation.ANY_ID else 403)

    asyncio.run(scenario())


def test_health_metrics_and_the_page_tell_how_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, f"{ALICE.address}/<script>")
            await node.call("POST", f"/streams/{quote(f'{ALICE.address}/<script>', safe='')}/data", {}, token=token)
            assert (await node.call("GET", "/healthz")).json() == {"status": "ok"}
            metrics = (await node.call("GET", "/metrics")).body.decode()
            assert "\nheadgate_node_published_total 1\n" in metrics
            assert "\nheadgate_node_streams 1\n" in metrics
            page = (await node.call("GET", "/")).body.decode()
            assert f"{ALICE.address}/&lt;script&gt;" in page
            assert "<script" not in page
            node.node.counters.storage_failing = True
            assert (await node.call("GET", "/healthz")).status == 503

    asyncio.run(scenario())
