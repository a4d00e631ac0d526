"""What the node shows of itself."""

import base64
import hashlib
from dataclasses import fields

from prometheus_client.parser import text_string_to_metric_families

from node.counters import Counters
from node.status import PAGE_HEADERS, STYLE, metrics_text


def test_every_counter_and_gauge_is_in_the_metrics() -> None:
    text = metrics_text(Counters(published=3, websocket_connections=2), {"streams": 5}, {"overlay_sent": 7})
    families = list(text_string_to_metric_families(text.decode()))
    samples = {sample.name: sample.value for family in families for sample in family.samples}

    assert len(samples) == len(fields(Counters)) + 2
    assert samples["headgate_node_published_total"] == 3
    assert samples["headgate_node_websocket_connections"] == 2
    assert samples["headgate_node_storage_failing"] == 0
    assert samples["headgate_node_streams"] == 5
    assert samples["headgate_node_overlay_sent_total"] == 7
    assert {family.type for family in families} == {"counter", "gauge"}


def test_each_sample_is_announced_with_its_type() -> None:
    lines = metrics_text(Counters(), {"streams": 1}, {}).decode().splitlines()

    for announcement, sample in zip(lines[::2], lines[1::2], strict=True):
        _, _, name, kind = announcement.split(" ")
        assert sample.startswith(f"{name} ")
        assert (kind == "counter") == name.endswith("_total")


def test_the_policy_of_the_page_allows_its_style_and_nothing_else() -> None:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = PAGE_HEADERS["Content-Security-Policy"]

    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "unsafe" not in policy
