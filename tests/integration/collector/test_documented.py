"""What another implementer or an operator has to know is in the documents."""

import argparse
import re
from pathlib import Path

from ingest.collector import cli
from ingest.collector.metrics import Metrics
from protocol.shipping import Refusal

DOCUMENTS = "".join(path.read_text() for path in (Path(__file__).parents[3] / "docs").glob("**/*.md"))


def test_every_refusal_is_reported_with_its_status() -> None:
    for refusal in Refusal:
        assert re.search(rf"^\| {refusal.status} \| .*`{refusal.code}`", DOCUMENTS, re.MULTILINE), refusal


def test_every_option_of_run_is_documented() -> None:
    parser = argparse.ArgumentParser()
    cli._add_run_arguments(parser)
    for option in re.findall(r"--[a-z][a-z-]+", parser.format_help()):
        assert option == "--help" or f"`{option}" in DOCUMENTS, option


def test_every_metric_is_documented() -> None:
    names = set(re.findall(r"^headgate_collector_(\w+)", Metrics().as_text({}).decode(), re.MULTILINE))
    assert len(names) > 5
    for name in names:
        assert f"`{name}" in DOCUMENTS, name
