"""A clock that jumps, restarts, commits, and a node that refuses the future: the way back of references.

Laws: no chain goes back; while the clock is right, what is wrapped after at most one refusal is accepted by the node;
each excursion is reported once, with the first messages of the new chains.
"""

import tempfile
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.clock import CeilingFile, ChainReferences, ClockReading
from agent.clock.references import MAX_AHEAD_MS
from agent.pack.routing import Route
from agent.pack.wrap import Group, Wrapped, Wrapper
from drivers.reading import Reading
from protocol.clock import ExcursionNotice
from protocol.ethereum.signer import Signer
from protocol.reference import Reference
from tests.effort import effort

NOW_MS = 1_700_000_000_000
SIGNER = Signer(b"\x07" * 32)
ROUTES = [Route(f"0xab/{name}", 0, "binary", 4, "", "none") for name in ("a", "b")]
EVENTS = Route("0xab/events", 0, "binary", 1, "", "none")
AHEAD_MS = st.sampled_from([0, 0, 0, 1000, MAX_AHEAD_MS + 60_000, 3_600_000, 40 * 86_400_000])
STEPS = st.lists(
    st.tuples(st.sampled_from(["commit", "commit", "commit", "crash", "stop"]), AHEAD_MS, st.booleans()), max_size=25
)


class Device:
    """The wrapper as the pipeline builds it, and what its journal and the node have received."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ceiling"
        self.chains: dict[str, list[Reference]] = {}
        self.last: Reference | None = None  # of the journal
        self.notices: list[ExcursionNotice] = []
        self.start()

    def start(self) -> None:
        self.ceiling = CeilingFile(self.path)
        self.references = ChainReferences(self.ceiling, self.last)
        self.wrapper = Wrapper(SIGNER, self.references, max_payload_bytes=60_000, report=self.report)

    def close(self) -> None:
        self.ceiling.close()

    def report(self, notice: ExcursionNotice) -> Group:
        self.notices.append(notice)
        return Group(EVENTS, [Reading("d", "excursion", b"x", taken_at_ms=NOW_MS, mime_type="application/cbor")])

    def commit(self, now_ms: int, *, is_synchronised: bool) -> list[int]:
        """Returns the timestamps of what was committed."""
        clock = ClockReading(
            now_ms=now_ms, monotonic_ms=1, boot_id=bytes(16), is_synchronised=is_synchronised, max_error_ms=1
        )
        wrapped, reported = Wrapped.nothing(), len(self.notices)
        self.wrapper.wrap(
            [Group(route, [Reading("s", "q", 1, taken_at_ms=now_ms)]) for route in ROUTES], clock, wrapped
        )
        entries = [entry for run in wrapped.runs for entry in run.entries]
        if len(self.notices) > reported:
            assert len(self.notices) == reported + 1, "reported twice"
            assert entries[0].chain.startswith(EVENTS.stream_id), "not reported first"
            assert not {entry.chain for entry in entries} & self.chains.keys(), "an old chain goes on"
        for entry in entries:
            chain = self.chains.setdefault(entry.chain, [])
            chain.append(Reference(entry.timestamp_ms, entry.sequence))
            assert chain == sorted(set(chain)), "a chain went back"
        self.last = max(self.last or Reference(0, 0), *(Reference(e.timestamp_ms, e.sequence) for e in entries))
        return [entry.timestamp_ms for entry in entries]


@settings(max_examples=effort(test=60, soak=5000), deadline=None)
@given(steps=STEPS)
def test_publishing_resumes_when_the_clock_is_right_and_no_chain_goes_back(steps: list[tuple[str, int, bool]]) -> None:
    true_ms = NOW_MS
    with tempfile.TemporaryDirectory() as folder, closing(Device(Path(folder))) as device:
        for step, ahead_ms, is_synchronised in [*steps, ("commit", 0, False), ("commit", 0, False)]:
            true_ms += 1000
            if step == "commit":
                timestamps = device.commit(true_ms + ahead_ms, is_synchronised=is_synchronised and not ahead_ms)
                if refused := [each for each in timestamps if each > true_ms + MAX_AHEAD_MS]:
                    assert ahead_ms or not is_synchronised, "a synchronised clock, and messages of the future"
                    device.references.note_future(refused[-1])
            else:
                device.references.close() if step == "stop" else device.close()
                device.start()
        assert not refused, "publishing does not resume"
        reported = len(device.notices)
        device.commit(true_ms, is_synchronised=True)
        assert len(device.notices) == reported, "reported again"
