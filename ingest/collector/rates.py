"""How fast a device may be: token buckets, one pair per device that was seen lately."""

from collections import OrderedDict
from dataclasses import dataclass

from ingest.collector.errors import Refused
from ingest.collector.settings import Limits
from protocol.shipping import Refusal

BURST_S = 2.0  # what was left unused in this time may be used at once
MAX_DEVICES = 16_384  # beyond, the one that was quiet longest is forgotten, and its buckets are full again


class TokenBucket:
    """Fills at `rate` per second up to `capacity`. It may be overdrawn once; the debt is what one waits for."""

    def __init__(self, rate: float, capacity: float, now_s: float) -> None:
        self._rate = rate
        self._capacity = capacity
        self._level = capacity
        self._filled_at_s = now_s

    def take(self, amount: float, now_s: float) -> float:
        """Take it, and say for how many seconds to wait before the next."""
        grown = self._level + (now_s - self._filled_at_s) * self._rate
        self._level = min(self._capacity, grown) - amount
        self._filled_at_s = now_s
        return max(0.0, -self._level / self._rate)

    def give_back(self, amount: float) -> None:
        self._level = min(self._capacity, self._level + amount)


@dataclass(frozen=True, slots=True)
class _Buckets:
    requests: TokenBucket
    bytes: TokenBucket


class DeviceRates:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: OrderedDict[bytes, _Buckets] = OrderedDict()

    def count_request(self, device: bytes, now_s: float) -> None:
        """Raises: Refused if the device asks too often. A refused request is not held against it."""
        bucket = self._of(device, now_s).requests
        wait_s = bucket.take(1, now_s)
        if wait_s > 0:
            bucket.give_back(1)
            raise Refused(Refusal.TOO_MANY_REQUESTS, "this device asks too often", retry_after_s=int(wait_s) + 1)

    def count_bytes(self, device: bytes, count: int, now_s: float) -> float:
        """For how many seconds to read no more from the device."""
        return self._of(device, now_s).bytes.take(count, now_s)

    def _of(self, device: bytes, now_s: float) -> _Buckets:
        if device not in self._buckets:
            rates = (self._limits.device_requests_per_s, float(self._limits.device_bytes_per_s))
            self._buckets[device] = _Buckets(*(TokenBucket(rate, max(1, rate * BURST_S), now_s) for rate in rates))
            if len(self._buckets) > MAX_DEVICES:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(device)
        return self._buckets[device]
