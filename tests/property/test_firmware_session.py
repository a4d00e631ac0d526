"""Whatever happens to line, device and host, in whatever order: no reading is stored twice, none taken is lost."""

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from testbed.cable import CLEAN, Faults
from tests.effort import effort
from tests.support.firmware_bench import Bench
from tests.support.model_device import ModelDevice

KEY = bytes(range(32))
SETTLE_MS = 6000.0

happenings = st.lists(
    st.tuples(
        st.sampled_from(
            ["nothing", "noise", "clean", "lose device", "find device", "reset", "kill host", "stall journal"]
        ),
        st.integers(1, 20).map(lambda tenths: tenths * 60.0),
    ),
    max_size=12,
)


def let_happen(bench: Bench, what: str) -> None:
    match what:
        case "noise" | "clean":
            faults = Faults(bit_flips=0.001, drops=0.001) if what == "noise" else CLEAN
            bench.to_host.spoiler.faults = bench.to_device.spoiler.faults = faults
        case "lose device" | "find device":
            bench.device.is_lost = what == "lose device"
        case "reset":
            bench.device.reset(bench.now_ms)
        case "kill host":
            bench.kill_host()
        case "stall journal":
            bench.is_committing = not bench.is_committing


@settings(max_examples=effort(test=8, soak=500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(happenings, st.booleans(), st.integers(0, 1000))
def test_every_boot_is_stored_in_order_once_and_whole_but_for_what_its_device_dropped(
    story: list[tuple[str, float]], has_key: bool, seed: int
) -> None:
    key = KEY if has_key else None
    bench = Bench(ModelDevice(key=key, queue_records=12), key=key, seed=seed, faults=Faults(bit_flips=0.0001))
    for what, for_ms in story:
        let_happen(bench, what)
        bench.run(for_ms, measure_every_ms=60)
    let_happen(bench, "clean")
    let_happen(bench, "find device")
    bench.is_committing = True
    bench.run(SETTLE_MS)
    assert not bench.device.queue, "the device is rid of everything"
    for boot_id in bench.device.measured:
        values = bench.values_of(boot_id)
        assert values == sorted(set(values)), "in order, and none twice"
    last = bench.values_of(bench.device.boot_id)
    measured = len(bench.device.measured[bench.device.boot_id])
    assert measured - len(last) == bench.device.dropped, "of the last boot nothing is missing but what it dropped"
