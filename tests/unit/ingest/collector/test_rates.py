import pytest

from ingest.collector.errors import Refused
from ingest.collector.rates import MAX_DEVICES, DeviceRates, TokenBucket
from ingest.collector.settings import Limits


def test_a_bucket_gives_its_capacity_at_once_and_then_its_rate() -> None:
    bucket = TokenBucket(rate=10, capacity=20, now_s=0)
    assert bucket.take(20, now_s=0) == 0
    assert bucket.take(5, now_s=0) == pytest.approx(0.5)
    assert bucket.take(5, now_s=1.0) == 0  # 10 came in, 5 were owed, 5 are taken
    assert bucket.take(1, now_s=1.0) == pytest.approx(0.1)


def test_a_bucket_never_holds_more_than_its_capacity() -> None:
    bucket = TokenBucket(rate=10, capacity=20, now_s=0)
    assert bucket.take(30, now_s=1_000_000) == pytest.approx(1.0)


def test_a_device_that_asks_too_often_is_refused_until_it_waited() -> None:
    rates = DeviceRates(Limits(device_requests_per_s=2))
    for _ in range(4):
        rates.count_request(b"one", now_s=0)
    with pytest.raises(Refused, match="too often") as refused:
        rates.count_request(b"one", now_s=0)
    assert refused.value.retry_after_s == 1
    rates.count_request(b"another", now_s=0)
    rates.count_request(b"one", now_s=0.5)


def test_refused_requests_do_not_make_the_wait_longer() -> None:
    rates = DeviceRates(Limits(device_requests_per_s=1))
    rates.count_request(b"one", now_s=0)
    rates.count_request(b"one", now_s=0)
    for _ in range(1000):
        with pytest.raises(Refused):
            rates.count_request(b"one", now_s=0)
    rates.count_request(b"one", now_s=1)


def test_only_so_many_devices_are_remembered() -> None:
    rates = DeviceRates(Limits())
    for number in range(MAX_DEVICES + 10):
        rates.count_bytes(number.to_bytes(20, "big"), 1, now_s=0)
    assert len(rates._buckets) == MAX_DEVICES
