"""The suite's own rule: a module has a unit test at the mirrored path, a test that imports it, or a row in this table.

The table names, for each such test, the modules that it covers without importing them.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("agent", "drivers", "firmware_bridge", "ingest", "node", "protocol", "runtime", "testbed")
COVERED_BY = {
    "tests/unit/agent/ship/test_shipper.py": ("agent/ship/upload.py",),
    "tests/unit/agent/archive/test_archiver.py": ("agent/archive/inspection.py",),
    "tests/unit/agent/journal/test_journal.py": (
        "agent/journal/lane.py",
        "agent/journal/store.py",
    ),
    "tests/unit/agent/keys/test_key_store.py": (
        "agent/keys/passphrase.py",
        "agent/keys/files.py",
    ),
    "tests/integration/test_documents.py": (
        "agent/operator/commands/backup.py",
        "agent/operator/commands/check.py",
        "agent/operator/arguments.py",
        "agent/operator/commands/doctor.py",
        "agent/operator/commands/rekey.py",
        "agent/operator/commands/reload.py",
        "agent/operator/commands/restore.py",
        "agent/operator/commands/run.py",
        "agent/operator/commands/subscribe.py",
        "agent/operator/commands/systemd.py",
    ),
    "tests/integration/test_publishers.py": (
        "agent/publish/http.py",
        "agent/publish/node_connection.py",
    ),
    "tests/integration/test_agent.py": ("agent/service/status.py",),
    "tests/integration/drivers/test_contract.py": (
        "drivers/kernel_files.py",
        "drivers/probe.py",
    ),
    "tests/unit/firmware_bridge/test_session.py": (
        "firmware_bridge/descriptions.py",
        "firmware_bridge/device_requests.py",
        "firmware_bridge/errors.py",
        "firmware_bridge/events.py",
        "firmware_bridge/reception.py",
    ),
    "tests/integration/ingest/test_tables_equal_the_truth.py": (
        "ingest/claims.py",
        "ingest/report_style.py",
        "ingest/session.py",
    ),
    "tests/integration/collector/test_device_logs.py": ("ingest/collector/heartbeats.py",),
    "tests/integration/collector/test_shipping.py": (
        "ingest/collector/intake.py",
        "ingest/collector/landing.py",
        "ingest/collector/monitoring.py",
        "ingest/collector/refusals.py",
        "ingest/collector/routes.py",
        "ingest/collector/server.py",
        "ingest/collector/uploads.py",
    ),
    "tests/integration/test_node_websocket.py": (
        "node/http/server.py",
        "node/http/websocket.py",
    ),
    "tests/integration/test_mqtt_bridge.py": ("node/mqtt_bridge/command.py",),
    "tests/integration/test_overlay.py": (
        "node/overlay/command.py",
        "node/overlay/membership.py",
        "node/overlay/overlay.py",
    ),
    "tests/integration/test_node_command.py": ("node/permissions/operator.py",),
    "tests/integration/test_node_rest.py": (
        "node/rest/caller.py",
        "node/rest/data.py",
        "node/rest/login.py",
        "node/rest/streams.py",
    ),
    "tests/unit/node/storage/test_storage.py": (
        "node/storage/arrival_queries.py",
        "node/storage/database.py",
        "node/storage/registry.py",
    ),
    "tests/integration/test_tracker_server.py": ("node/tracker/command.py",),
    "tests/unit/protocol/archive/test_reader_and_writer.py": ("protocol/archive/header.py",),
    "tests/unit/protocol/ethereum/test_secp256k1.py": ("protocol/ethereum/curve.py",),
    "tests/unit/protocol/firmware/test_manifest.py": ("protocol/firmware/slot.py",),
    "tests/unit/protocol/streamr/stream_message/test_text_columns.py": ("protocol/byte_matrix.py",),
    "tests/property/test_iomessage.py": ("protocol/iomessage/text_values.py",),
    "tests/property/test_link_laws.py": (
        "protocol/link/commands.py",
        "protocol/link/description.py",
        "protocol/link/payload.py",
        "protocol/link/readings.py",
        "protocol/link/session_messages.py",
        "protocol/link/update.py",
    ),
    "tests/property/test_streamr_layers.py": (
        "protocol/streamr/checks.py",
        "protocol/streamr/elements.py",
    ),
    "tests/unit/protocol/streamr/control/test_control_codec.py": (
        "protocol/streamr/control/checks.py",
        "protocol/streamr/control/codec.py",
        "protocol/streamr/control/layouts.py",
        "protocol/streamr/control/messages.py",
    ),
    "tests/unit/runtime/http/test_server.py": ("runtime/http/messages.py",),
    "tests/integration/testbed/test_scenarios.py": (
        "testbed/bench/agents.py",
        "testbed/bench/devices.py",
        "testbed/bench/removed.py",
        "testbed/bench/servers.py",
        "testbed/bench/state_faults.py",
        "testbed/cli.py",
        "testbed/oracle/evidence.py",
        "testbed/oracle/lake.py",
        "testbed/oracle/messages.py",
        "testbed/oracle/truth.py",
        "testbed/scenario/document.py",
        "testbed/scenario/parts.py",
    ),
    "tests/integration/test_cable.py": (
        "testbed/cable/cable.py",
        "testbed/cable/line.py",
    ),
    "tests/integration/testbed/test_demo.py": (
        "testbed/demo/cli.py",
        "testbed/demo/lake.py",
        "testbed/demo/settings.py",
        "testbed/demo/stage.py",
        "testbed/demo/story.py",
    ),
}
MODULES = [
    path.relative_to(ROOT).as_posix()
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.stem not in ("__init__", "__main__")
]


@pytest.fixture(scope="module")
def imported() -> set[str]:
    return {name for path in (ROOT / "tests").rglob("test_*.py") for name in _imports_of(path)}


def _imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (node.module, *(f"{node.module}.{each.name}" for each in node.names))


def test_every_module_has_its_test(imported: set[str]) -> None:
    in_table = {module for modules in COVERED_BY.values() for module in modules}
    untested = [module for module in MODULES if module not in in_table and not _is_tested(module, imported)]
    assert untested == [], "give each a unit test at the mirrored path, or name the test that covers it in the table"


def _is_tested(module: str, imported: set[str]) -> bool:
    path = Path(module)
    mirrored = ROOT / "tests" / "unit" / path.parent / f"test_{path.name}"
    return mirrored.exists() or ".".join(path.with_suffix("").parts) in imported


def test_the_table_names_only_what_exists() -> None:
    names = [*COVERED_BY, *(module for modules in COVERED_BY.values() for module in modules)]
    assert [name for name in names if not (ROOT / name).is_file()] == []
