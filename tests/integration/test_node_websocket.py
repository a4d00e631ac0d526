"""What clients say to a node over real sockets, in every version, and what they are answered."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from node import NodeConfig
from node.config import ApiKey
from tests.support.node_bench import (
    ALICE,
    BOB,
    MODERN,
    Chain,
    ask,
    hear,
    publish_request,
    running_node,
)
from tests.support.patience import PATIENCE_S
from tests.support.within import within

STREAM = f"{ALICE.address}/boiler"


def test_a_published_message_reaches_every_subscriber_in_its_own_versions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM, requireSignedData=True)
            await node.grant(token, STREAM, "stream_subscribe", None)
            older = "?controlLayerVersion=1&messageLayerVersion=31"
            async with node.connect() as new, node.connect(older) as old, node.connect("") as oldest:
                assert await ask(new, [2, 9, "r1", STREAM, 0, None]) == [2, 2, "r1", STREAM, 0]
                assert await ask(old, [1, 9, STREAM, 0, None]) == [1, 2, STREAM, 0]
                subscribed = await ask(oldest, {"type": "subscribe", "stream": STREAM})
                assert subscribed == [0, 2, None, {"stream": STREAM, "partition": 0}]
                message = Chain(ALICE, STREAM).next({"n": 1})
                await new.send(json.dumps(publish_request(message)))

                assert await hear(new) == [2, 0, "", json.loads(message.serialize(32))]
                assert await hear(old) == [1, 0, json.loads(message.serialize(31))]
                time_ms, content = message.message_id.timestamp, message.content
                assert await hear(oldest) == [0, 0, None, [28, STREAM, 0, time_ms, 0, 1, None, 27, content]]

    asyncio.run(scenario())


def test_resends_of_all_three_kinds_and_of_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM)
            async with node.connect() as client:
                nothing = await ask(client, [2, 11, "none", STREAM, 0, 5, token])
                assert nothing == [2, 6, "none", STREAM, 0]
                chain = Chain(ALICE, STREAM)
                sent = [chain.next({"n": n}) for n in range(5)]
                await ask(client, [2, 9, "s", STREAM, 0, token])
                for message in sent:
                    await client.send(json.dumps(publish_request(message)))
                    await hear(client)
                second, fourth = [[*sent[index].message_id.ref] for index in (1, 3)]
                requests: dict[str, tuple[list[Any], list[int]]] = {
                    "last": ([2, 11, "last", STREAM, 0, 2, token], [3, 4]),
                    "from": ([2, 12, "from", STREAM, 0, second, None, token], [1, 2, 3, 4]),
                    "range": ([2, 13, "range", STREAM, 0, second, fourth, ALICE.address, "c", token], [1, 2, 3]),
                }
                for request_id, (request, expected) in requests.items():
                    assert await ask(client, request) == [2, 4, request_id, STREAM, 0]
                    found = [await hear(client) for _ in expected]
                    assert found == [[2, 1, request_id, json.loads(sent[n].serialize())] for n in expected]
                    assert await hear(client) == [2, 5, request_id, STREAM, 0]

    asyncio.run(scenario())


def test_the_legacy_api_publishes_and_resends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM)
            async with node.connect("") as client:
                about = {"stream": STREAM, "sessionToken": token}
                await ask(client, {"type": "subscribe", **about})
                for n in (1, 2, 3):
                    heard = await ask(client, {"type": "publish", **about, "msg": f'{{"n":{n}}}', "ts": 1_000 + n})
                    previous = n - 1 or None
                    assert heard == [0, 0, None, [28, STREAM, 0, 1_000 + n, 0, n, previous, 27, f'{{"n":{n}}}']]
                options: dict[str, tuple[dict[str, Any], list[int]]] = {
                    "all": ({"resend_all": True}, [1, 2, 3]),
                    "last": ({"resend_last": 2}, [2, 3]),
                    "from": ({"resend_from": 2}, [2, 3]),
                    "range": ({"resend_from": 1, "resend_to": 2}, [1, 2]),
                    "time": ({"resend_from_time": 1_003}, [3]),
                    "none": ({"resend_from": 4}, []),
                }
                for sub, (option, expected) in options.items():
                    state = {"stream": STREAM, "partition": 0, "sub": sub}
                    first = await ask(client, {"type": "resend", **about, "sub": sub, **option})
                    assert first == [0, 4 if expected else 6, None, state]
                    found = [await hear(client) for _ in expected]
                    assert [(unicast[2], json.loads(unicast[3][8])["n"]) for unicast in found] == [
                        (sub, n) for n in expected
                    ]
                    if expected:
                        assert await hear(client) == [0, 5, None, state]
                gone = await ask(client, {"type": "unsubscribe", "stream": STREAM})
                assert gone == [0, 3, None, {"stream": STREAM, "partition": 0}]
                refused = await ask(client, {"type": "subscribe", "stream": "unknown"})
                assert refused == [0, 7, None, {"error": "Stream unknown not found."}]

    asyncio.run(scenario())


def test_an_old_client_is_known_by_its_api_key(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("a key that is hard to guess")
    key_file.chmod(0o600)
    config = NodeConfig(api_keys=(ApiKey(address=ALICE.address, key_file=key_file),))

    async def scenario() -> None:
        async with running_node(tmp_path / "data", config) as node:
            answer = await node.call("POST", "/login/apikey", {"apiKey": "a key that is hard to guess"})
            await node.make_stream(answer.json()["token"], STREAM)
            assert (await node.call("POST", "/login/apikey", {"apiKey": "a guess"})).status == 401
            async with node.connect("") as client:
                about = {"stream": STREAM, "authKey": "a key that is hard to guess"}
                assert (await ask(client, {"type": "subscribe", **about}))[1] == 2
                assert (await ask(client, {"type": "publish", **about, "msg": '{"n":1}'}))[3][8] == '{"n":1}'
                assert (await ask(client, {"type": "resend", **about, "sub": "s", "resend_last": 1}))[1] == 4
                for _ in ("message", "resent"):
                    await hear(client)
                refused = await ask(client, {"type": "subscribe", "stream": STREAM, "authKey": "a guess"})
                assert "the API key is unknown" in refused[3]["error"]

    asyncio.run(scenario())


def test_legacy_messages_have_rising_offsets_whatever_their_times(tmp_path: Path) -> None:
    times = [2_000, 2_000, 1_000, 2_000, 3_000]

    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM)
            async with node.connect("") as client:
                about = {"stream": STREAM, "sessionToken": token}
                await ask(client, {"type": "subscribe", **about})
                live = [(await ask(client, {"type": "publish", **about, "msg": "{}", "ts": ts}))[3] for ts in times]
                offsets = [message[5] for message in live]
                assert offsets == sorted(set(offsets))
                assert [message[6] for message in live] == [None, *offsets[:-1]]
                await ask(client, {"type": "resend", **about, "sub": "s", "resend_all": True})
                again = [(await hear(client))[3] for _ in times]
                assert [(message[3], message[5]) for message in again] == list(zip(times, offsets, strict=True))

    asyncio.run(scenario())


def test_a_client_without_a_query_gets_the_signatures_that_it_can_check(tmp_path: Path) -> None:
    content = '{"n":1}'
    signature = ALICE.sign_message(f"{STREAM}1000{ALICE.address}{content}")
    signed = {"msg": content, "ts": 1_000, "addr": ALICE.address, "sigtype": 1, "sig": signature}

    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM, requireSignedData=True)
            about = {"stream": STREAM, "sessionToken": token}
            legacy29 = "?controlLayerVersion=0&messageLayerVersion=29"
            async with node.connect("") as client, node.connect(legacy29) as newer, node.connect() as newest:
                for each in (client, newer):
                    await ask(each, {"type": "subscribe", **about})
                await client.send(json.dumps({"type": "publish", **about, **signed}))
                expected = [29, STREAM, 0, 1_000, 0, 1, None, 27, content, 1, ALICE.address, signature]
                assert await hear(client) == await hear(newer) == [0, 0, None, expected]
                await newest.send(json.dumps(publish_request(Chain(ALICE, STREAM).next({"n": 2}))))
                assert (await hear(client))[3][0] == 28
                assert (await hear(newer))[3][9::2] == [0, None]  # what its signature covers is not in 29

    asyncio.run(scenario())


def test_a_late_message_of_a_legacy_client_keeps_its_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM)
            async with node.connect("") as client:
                about = {"stream": STREAM, "sessionToken": token}
                await ask(client, {"type": "subscribe", **about})
                times = [
                    (await ask(client, {"type": "publish", **about, "msg": "{}", "ts": ts}))[3][3]
                    for ts in (2_000, 1_000, 2_000)
                ]
                assert times == [2_000, 1_000, 2_000]

    asyncio.run(scenario())


def test_a_key_exchange_stream_has_one_partition(tmp_path: Path) -> None:
    stream = f"SYSTEM/keyexchange/{ALICE.address}"

    async def scenario() -> None:
        async with running_node(tmp_path) as node, node.connect() as client:
            for partition in (1, 2**64 - 1):
                for request in ([2, 9, "r", stream, partition, None], [2, 11, "r", stream, partition, 1, None]):
                    assert (await ask(client, request))[4] == "INVALID_REQUEST"
            assert (await ask(client, [2, 11, "r", stream, 0, 1, None]))[1] == 6

    asyncio.run(scenario())


def test_every_refusal_has_the_code_of_real_brokers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            token, bobs_token = await node.log_in(ALICE), await node.log_in(BOB)
            await node.make_stream(token, STREAM, requireSignedData=True)
            open_stream = await node.make_stream(token, f"{ALICE.address}/open", partitions=2)
            future = Chain(ALICE, STREAM, start_ms=time.time_ns() // 1_000_000 + 400_000).next({})
            forged = Chain(ALICE, STREAM).next({"n": 1}).replace(content="{}")
            foreign = Chain(BOB, STREAM).next({})
            unsigned = [32, [open_stream, 0, 1, 0, ALICE.address, "c"], None, 27, 0, 0, None, "{}", None, 0, None]
            cases: list[tuple[object, str, str]] = [
                ("garbage", "", "INVALID_REQUEST"),
                ('[2,99,"r"]', "", "INVALID_REQUEST"),
                ([2, 2, "r", STREAM, 0], "r", "INVALID_REQUEST"),
                ([2, 9, "r", "unknown", 0, token], "r", "NOT_FOUND"),
                ([2, 9, "r", STREAM, 0, None], "r", "PERMISSION_DENIED"),
                ([2, 9, "r", STREAM, 0, bobs_token], "r", "PERMISSION_DENIED"),
                ([2, 9, "r", STREAM, 0, "wrong"], "r", "AUTHENTICATION_FAILED"),
                ([2, 9, "r", STREAM, 7, token], "r", "INVALID_REQUEST"),
                ([2, 10, "r", STREAM, 0], "r", "INVALID_REQUEST"),
                ([2, 11, "r", STREAM, 0, 1, bobs_token], "r", "PERMISSION_DENIED"),
                (publish_request(future, "r"), "r", "FUTURE_TIMESTAMP"),
                (publish_request(forged, "r"), "r", "REQUEST_FAILED"),
                (publish_request(foreign, "r"), "r", "PERMISSION_DENIED"),
                (publish_request(Chain(ALICE, "unknown").next({}), "r"), "r", "NOT_FOUND"),
                ([2, 8, "r", unsigned, None], "r", "PERMISSION_DENIED"),
                ([2, 8, "r", unsigned, "wrong"], "r", "AUTHENTICATION_FAILED"),
                ([2, 8, "r", [32, [STREAM, *unsigned[1][1:]], *unsigned[2:]], token], "r", "REQUEST_FAILED"),  # type: ignore[index]
            ]
            async with node.connect() as client:
                for request, request_id, code in cases:
                    version, kind, found_id, text, found_code = await ask(client, request)  # type: ignore[arg-type]
                    assert (version, kind, found_id, found_code) == (2, 7, request_id, code), request
                    assert text

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "query", ["?controlLayerVersion=2&messageLayerVersion=33", "?controlLayerVersion=9&messageLayerVersion=32"]
)
def test_versions_that_do_not_exist_are_refused_before_the_upgrade(tmp_path: Path, query: str) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            with pytest.raises(InvalidStatus) as refused:
                async with node.connect(query):
                    pass
            assert refused.value.response.status_code == 400

    asyncio.run(scenario())


def test_fragments_binary_frames_and_pings_are_understood(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node, node.connect(MODERN + "&streamrClient=5.6.0") as client:
            request = json.dumps([2, 9, "r", f"SYSTEM/keyexchange/{ALICE.address}", 0, None])
            await client.send([request[:10], request[10:20], request[20:]])
            assert (await hear(client))[:3] == [2, 2, "r"]
            await client.send(request.encode())
            assert (await hear(client))[:3] == [2, 2, "r"]
            await within(PATIENCE_S, await client.ping())

    asyncio.run(scenario())


def test_a_message_larger_than_the_limit_closes_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, max_message_bytes=1_000) as node, node.connect() as client:
            await client.send("x" * 1_001)
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009

    asyncio.run(scenario())


def test_subscriptions_and_resends_of_one_connection_are_limited(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, max_subscriptions=2) as node, node.connect() as client:
            for index in (1, 2):
                stream = f"SYSTEM/keyexchange/0x{index:040x}"
                assert (await ask(client, [2, 9, "r", stream, 0, None]))[1] == 2
            refused = await ask(client, [2, 9, "r", f"SYSTEM/keyexchange/0x{3:040x}", 0, None])
            assert refused[4] == "REQUEST_FAILED"

    asyncio.run(scenario())


def test_a_client_that_leaves_is_unsubscribed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            async with node.connect() as client:
                await ask(client, [2, 9, "r", f"SYSTEM/keyexchange/{ALICE.address}", 0, None])
                assert len(node.node.hub.subscribed_parts) == 1
            await node.all_gone()
            assert not node.node.hub.subscribed_parts

    asyncio.run(scenario())


def test_what_was_stored_is_resent_after_a_restart(tmp_path: Path) -> None:
    message = Chain(ALICE, STREAM).next({"n": 1})

    async def publish() -> None:
        async with running_node(tmp_path) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM)
            async with node.connect() as client:
                await ask(client, [2, 9, "s", STREAM, 0, token])
                assert (await ask(client, publish_request(message)))[1] == 0

    async def read() -> None:
        async with running_node(tmp_path) as node, node.connect() as client:
            token = await node.log_in(ALICE)
            assert (await ask(client, [2, 11, "r", STREAM, 0, 9, token]))[1] == 4
            assert await hear(client) == [2, 1, "r", json.loads(message.serialize())]

    asyncio.run(publish())
    asyncio.run(read())
