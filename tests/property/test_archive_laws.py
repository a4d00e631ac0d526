"""Laws of the archive format over generated archives."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol import strict_cbor
from protocol.archive.receipt import Receipt
from protocol.archive.records import Record
from protocol.errors import WireError
from protocol.losses import Loss
from protocol.reference import Reference
from protocol.strict_cbor import CborBounds, CborValue
from tests.effort import effort
from tests.support.archives import read_archive, write_archive

TIMESTAMPS = st.integers(0, 2**53 - 1)
SEQUENCES = st.integers(0, 2**32 - 1)
CHAINS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
REFERENCES = st.builds(Reference, TIMESTAMPS, SEQUENCES)
BARE_RECORDS = st.builds(
    Record, st.binary(max_size=200), CHAINS, TIMESTAMPS, SEQUENCES, st.integers(0, 3), st.just(0), TIMESTAMPS
)
CBOR_VALUES: st.SearchStrategy[CborValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64 - 1) | st.binary(max_size=20) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)
BOUNDS = CborBounds(max_bytes=10_000, max_items=1000, max_depth=30)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    """Records in the order of a journal: any lanes and chains, positions that increase by any step."""
    records, position = [], 0
    for record in draw(st.lists(BARE_RECORDS, max_size=30)):
        readings = draw(st.integers(1, 3))
        position += draw(st.integers(0, 1000))
        records.append(record._replace(position=position, readings=readings))
        position += readings
    return records


@st.composite
def losses(draw: st.DrawFn) -> Loss:
    first, last = sorted([draw(REFERENCES), draw(REFERENCES)])
    first_position, last_position = sorted([draw(st.integers(0, 2**63 - 1)), draw(st.integers(0, 2**63 - 1))])
    chain = draw(CHAINS | st.just(""))
    return Loss(
        number=draw(st.integers(0, 2**63 - 1)),
        lane=draw(st.integers(0, 255)),
        chain=chain,
        first_position=first_position,
        last_position=last_position,
        count=draw(st.integers(1, 2**63 - 1)),
        first=first if chain else None,
        last=last if chain else None,
        cause=draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)),
    )


@settings(max_examples=effort(test=15, soak=1_000), deadline=None)
@given(record_lists(), st.lists(losses(), max_size=3), st.integers(1, 2000))
def test_what_is_written_is_what_is_read(records: list[Record], lost: list[Loss], block_target_bytes: int) -> None:
    data = write_archive(records, lost, block_target_bytes=block_target_bytes)
    archive, found = read_archive(data)
    assert found == records
    assert archive.manifest.losses == tuple(lost)
    assert write_archive(records, lost, block_target_bytes=block_target_bytes) == data


@settings(max_examples=effort(test=25, soak=2_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_at_all_give_a_wire_error(data: bytes, with_preamble: bool) -> None:
    data = b"HGARCH\x00\x03" + data if with_preamble else data
    for attempt in (
        lambda: read_archive(data),
        lambda: Receipt.from_bytes(data),
    ):
        try:
            attempt()
        except WireError:
            continue
        raise AssertionError("random bytes passed for an archive or a receipt")


@given(CBOR_VALUES)
def test_cbor_values_survive_the_round_trip(value: CborValue) -> None:
    assert strict_cbor.decode(strict_cbor.encode(value), BOUNDS) == value


@given(st.binary(max_size=100))
def test_bytes_that_decode_are_the_only_encoding_of_their_value(data: bytes) -> None:
    try:
        value = strict_cbor.decode(data, BOUNDS)
    except WireError:
        return
    assert strict_cbor.encode(value) == data
