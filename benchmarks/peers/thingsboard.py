"""The ThingsBoard gateway: its MQTT connector, events stored in SQLite, telemetry packed by its defaults.

Its dependencies conflict with ours, so it has its own virtual environment. A proxy address without a listener prevents
its request to an update server at the start. Its rate limits, made for the vendor's cloud, are off.
"""

import json
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.forwarder import Forwarder, install, numbers_of
from benchmarks.peers.traffic import Answer, Arrival

PACKAGE = "thingsboard-gateway==3.8.5"
TELEMETRY_TOPIC = "v1/gateway/telemetry"
REQUEST_TOPIC = "v1/devices/me/rpc/request/"
RESPONSE_TOPIC = "v1/devices/me/rpc/response/"
SESSION_LIMITS = b'{"maxPayloadSize":65536,"maxInflightMessages":100,"rateLimits":{},"gatewayRateLimits":{}}'
NO_LIMIT = "0:0,"
NOWHERE = "http://127.0.0.1:9"


def server_answer(topic: str) -> Answer | None:
    """The limits of a ThingsBoard server, which the gateway requests before it forwards anything."""
    if not topic.startswith(REQUEST_TOPIC):
        return None
    return Answer(RESPONSE_TOPIC + topic.removeprefix(REQUEST_TOPIC), SESSION_LIMITS)


class ThingsBoardGateway(Forwarder):
    name = "thingsboard"
    round_readings = 10_000

    def set_up(self, source_port: int, sink_port: int) -> None:
        self._python = _installed()
        for folder in ("config", "data", "logs"):
            (self.folder / folder).mkdir()
        self._write("tb_gateway.json", self._gateway(sink_port))
        self._write("mqtt.json", self._connector(source_port))
        self._write("logs.json", _logs())

    def command(self) -> Sequence[str]:
        return [str(self._python), "-m", "thingsboard_gateway.tb_gateway"]

    def environment(self) -> dict[str, str]:
        config = {"TB_GW_CONFIG_DIR": str(self.folder / "config")}
        return {**config, "http_proxy": NOWHERE, "https_proxy": NOWHERE, "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE}

    def numbers_in(self, arrival: Arrival) -> list[int]:
        if arrival.topic != TELEMETRY_TOPIC:
            return []
        rows = [row for rows in json.loads(arrival.payload).values() for row in rows]
        return numbers_of([row["values"]["value"] for row in rows if "value" in row.get("values", {})])

    def _write(self, name: str, values: object) -> None:
        (self.folder / "config" / name).write_text(json.dumps(values))

    def _gateway(self, port: int) -> dict[str, object]:
        limits = ("rateLimits", "dpRateLimits", "messagesRateLimits")
        device_limits = ("deviceMessagesRateLimits", "deviceRateLimits", "deviceDpRateLimits")
        return {
            "thingsboard": {
                "host": "127.0.0.1",
                "port": port,
                "remoteShell": False,
                "remoteConfiguration": False,
                "statistics": {"enable": False},
                "security": {"type": "accessToken", "accessToken": "bench"},
                "qos": 1,
                "reportStrategy": {"type": "ON_RECEIVED"},
                "checkingDeviceActivity": {"checkDeviceInactivity": False},
                **dict.fromkeys((*limits, *device_limits), NO_LIMIT),
            },
            "storage": {"type": "sqlite", "data_file_path": str(self.folder / "data" / "data.db")},
            "grpc": {"enabled": False},
            "connectors": [{"type": "mqtt", "name": "readings", "configuration": "mqtt.json"}],
        }

    def _connector(self, port: int) -> dict[str, object]:
        device = {
            "deviceNameExpressionSource": "topic",
            "deviceNameExpression": rf"(?<={self.name}\/)(.*?)(?=\/data)",
            "deviceProfileExpressionSource": "constant",
            "deviceProfileExpression": "default",
        }
        value = {"type": "integer", "key": "value", "value": "${value}"}
        converter = {"type": "json", "deviceInfo": device, "attributes": [], "timeseries": [value]}
        mapping = {"topicFilter": f"{self.name}/+/data", "subscriptionQos": 1, "converter": converter}
        broker = {
            "host": "127.0.0.1",
            "port": port,
            "clientId": "thingsboard-source",
            "version": 5,
            "cleanSession": False,
            "cleanStart": False,
            "sessionExpiryInterval": 3600,
            "security": {"type": "anonymous"},
        }
        return {"broker": broker, "mapping": [mapping]}


def _logs() -> dict[str, object]:
    names = ("service", "connector", "converter", "tb_connection", "storage", "extension", "statistics", "database")
    quiet = {"level": "ERROR", "handlers": ["console"], "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"console": {"class": "logging.StreamHandler"}},
        "loggers": dict.fromkeys(names, quiet),
        "root": {"level": "ERROR", "handlers": ["console"]},
    }


def _installed() -> Path:
    """Its Python interpreter; installs it below our virtual environment if it is missing. Raises: Missing."""
    folder = Path(sys.prefix) / "peers" / "thingsboard"
    python = folder / "bin" / "python"
    if not (folder / "bin" / "thingsboard-gateway").exists():
        venv.create(folder, with_pip=True)
        install([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE])
    return python
