"""Serves `/healthz` and `/metrics`."""

from ingest.collector.blocking import Workers
from ingest.collector.errors import UploadRefused
from ingest.collector.intake import Intake
from ingest.collector.metrics import Metrics
from ingest.collector.refusals import Refuser, fault
from ingest.collector.settings import Limits
from protocol.shipping import Refusal
from runtime.http import Request, Response
from runtime.prometheus_text import CONTENT_TYPE


class MonitoringRoutes(Refuser):
    """`/healthz` and `/metrics`, for every client that can connect."""

    def __init__(self, intake: Intake, limits: Limits, metrics: Metrics, disk: Workers) -> None:
        super().__init__(metrics)
        self._intake = intake
        self._limits = limits
        self._disk = disk

    async def answer(self, request: Request) -> Response:
        try:
            found = await self.find(request)
        except UploadRefused as refused:
            return self.deny(refused)
        except OSError as error:
            return self.deny(fault(error))
        return found or self.deny(UploadRefused(Refusal.NOT_FOUND, "only /metrics and /healthz are served here"))

    async def find(self, request: Request) -> Response | None:
        """None: the request is for something else. Raises: UploadRefused, OSError."""
        match request.target:
            case "/healthz":
                return await self._health()
            case "/metrics":
                return await self._show_metrics()
        return None

    async def _health(self) -> Response:
        free_bytes = await self._disk.run(self._intake.uploads.free_bytes)
        if free_bytes < self._limits.min_free_bytes:
            raise UploadRefused(
                Refusal.NO_SPACE, f"{free_bytes} bytes are free; at least {self._limits.min_free_bytes} are required"
            )
        return Response(content_type="text/plain", body=b"ok\n")

    async def _show_metrics(self) -> Response:
        gauges = {
            "uploads_active": self._intake.uploads.active,
            "free_bytes": await self._disk.run(self._intake.uploads.free_bytes),
            **self._intake.logs.totals,
        }
        return Response(content_type=CONTENT_TYPE, body=self._metrics.as_text(gauges))
