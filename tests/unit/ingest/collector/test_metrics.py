"""The metrics of the collector, as the parser of Prometheus reads them."""

from prometheus_client.parser import text_string_to_metric_families

from ingest.collector.metrics import Metrics
from protocol.shipping import Refusal


def test_the_parser_of_prometheus_reads_every_value() -> None:
    metrics = Metrics()
    metrics.http.responses.update({201: 2, 404: 1})
    metrics.refusals[Refusal.NOT_FOUND] = 4
    metrics.bytes_stored, metrics.http.open = 1000, 3
    families = list(text_string_to_metric_families(metrics.as_text({"free_bytes": 7}).decode()))
    values = {(each.name, *each.labels.items()): each.value for family in families for each in family.samples}

    assert values["headgate_collector_responses_total", ("status", "201")] == 2
    assert values["headgate_collector_responses_total", ("status", "404")] == 1
    assert values["headgate_collector_refusals_total", ("code", Refusal.NOT_FOUND.code)] == 4
    assert values["headgate_collector_bytes_stored_total",] == 1000
    assert values["headgate_collector_connections",] == 3
    assert values["headgate_collector_free_bytes",] == 7
    assert {family.name: family.type for family in families}["headgate_collector_connections"] == "gauge"


def test_every_refusal_is_counted_from_the_start() -> None:
    text = Metrics().as_text({}).decode()
    assert all(f'headgate_collector_refusals_total{{code="{refusal.code}"}} 0\n' in text for refusal in Refusal)
