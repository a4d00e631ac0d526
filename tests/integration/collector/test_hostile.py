"""What a hostile or broken client meets: a refusal, at bounded cost, and never a stored lie."""

import dataclasses
import hashlib
import resource
import socket
import ssl
import tracemalloc
from contextlib import ExitStack
from pathlib import Path

import pytest
from nacl.public import PrivateKey
from nacl.signing import SigningKey

from ingest.collector.devices import Device
from ingest.collector.settings import Limits, TlsFiles
from ingest.collector.verify import verify_archive
from protocol.archive.layout import PREAMBLE, SIGNATURE, FrameKind, bytes_to_sign, encode_frame
from protocol.archive.random_access import open_archive
from protocol.archive.writer import ArchiveWriter
from protocol.binding import Binding, sign_binding
from protocol.ethereum import Signer, checksum_address
from protocol.shipping import UploadClaim, archive_path, sign_claim
from runtime.http import HttpLimits
from tests.support.archives import BINDING, EMPTY_LOG, HEADER, IDENTITY, read_at_of, record, sign, write_archive
from tests.support.certificates import make_certificate
from tests.support.collectors import (
    ARCHIVE,
    DECRYPTION_KEY,
    RunningCollector,
    claim_for,
    claim_of,
    claim_statement,
    encrypt,
    head_of,
    running_collector,
)

MAX_HEAD_BYTES = HttpLimits().max_head_bytes
CLAIM = claim_for(ARCHIVE)
HALF = len(ARCHIVE) // 2
IMPATIENT = Limits(min_free_bytes=0, head_timeout_s=0.2, patience_s=0.2, min_patience_bytes=4096)
OTHER_IDENTITY = Signer(b"\x77" * 32)
OTHER_KEY = SigningKey(b"\x66" * 32)
OTHER_BINDING = sign_binding(OTHER_IDENTITY, bytes(OTHER_KEY.verify_key))


def nothing_is_stored(collector: RunningCollector) -> bool:
    return collector.landed() == {} and collector.receipts() == []


def all_of(link: socket.socket) -> bytes:
    """What comes until the collector closes."""
    received = b""
    while piece := link.recv(65536):
        received += piece
    return received


def exchange(collector: RunningCollector, data: bytes) -> bytes:
    with collector.connect() as link:
        link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        return all_of(link)


# Lengths


def test_more_bytes_than_claimed_are_refused_before_they_are_read(collector: RunningCollector) -> None:
    answer = exchange(collector, head_of("PUT", CLAIM, len(ARCHIVE) + 1))
    assert b"400" in answer
    assert b"bad-length" in answer
    assert collector.parts() == {}


def test_a_known_archive_is_no_excuse_to_send_without_end(collector: RunningCollector) -> None:
    collector.put(ARCHIVE)
    assert b"bad-length" in exchange(collector, head_of("PUT", CLAIM, 2**60))
    assert b"length-required" in exchange(
        collector, head_of("PUT", CLAIM, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    )


def test_a_part_that_would_end_behind_the_archive_is_refused(collector: RunningCollector) -> None:
    collector.patch(ARCHIVE[:HALF], 0, CLAIM)
    reply = collector.patch(ARCHIVE, HALF, CLAIM)
    assert (reply.code, reply.offset) == ("bad-length", HALF)


def test_fewer_bytes_than_announced_are_kept_as_a_part(collector: RunningCollector) -> None:
    exchange(collector, head_of("PUT", CLAIM, len(ARCHIVE)) + ARCHIVE[:-1])
    assert nothing_is_stored(collector)
    assert list(collector.parts().values()) == [len(ARCHIVE) - 1]


def test_bytes_after_the_announced_length_are_no_part_of_the_archive(collector: RunningCollector) -> None:
    answer = exchange(collector, head_of("PUT", CLAIM, len(ARCHIVE)) + ARCHIVE + b"and more")
    assert answer.startswith(b"HTTP/1.1 201")
    assert list(collector.landed().values()) == [ARCHIVE]


@pytest.mark.parametrize(
    "lengths", ["Transfer-Encoding: chunked", "Content-Length: -1", "Content-Length: 5\r\nContent-Length: 6"]
)
def test_a_length_that_is_missing_or_means_two_things_is_refused(collector: RunningCollector, lengths: str) -> None:
    head = head_of("PUT", CLAIM, 0).replace(b"Content-Length: 0", lengths.encode())
    assert exchange(collector, head + b"0\r\n\r\n").split()[1] in (b"400", b"411")
    assert nothing_is_stored(collector)


def test_an_archive_above_the_limit_is_refused_by_its_claim(tmp_path: Path) -> None:
    with running_collector(tmp_path, Limits(min_free_bytes=0, max_archive_bytes=len(ARCHIVE) - 1)) as collector:
        assert collector.put(ARCHIVE).code == "too-large"


# Time


def test_a_head_that_never_ends_is_dropped(tmp_path: Path) -> None:
    with running_collector(tmp_path, IMPATIENT) as collector, collector.connect() as link:
        link.sendall(b"PUT /archives/")
        assert link.recv(1) == b""


def test_a_body_that_trickles_is_refused_and_what_came_is_kept(tmp_path: Path) -> None:
    with running_collector(tmp_path, IMPATIENT) as collector, collector.connect() as link:
        link.sendall(head_of("PUT", CLAIM, len(ARCHIVE)) + ARCHIVE[:10])
        answer = all_of(link)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"too-slow" in answer
        assert collector.head(CLAIM).offset == 10


def test_a_connection_that_says_nothing_more_is_closed(tmp_path: Path) -> None:
    with running_collector(tmp_path, IMPATIENT) as collector, collector.connect() as link:
        link.sendall(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
        assert all_of(link).endswith(b"ok\n")


# Numbers


def test_a_thousand_half_open_connections_keep_no_device_out(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with running_collector(tmp_path, Limits(min_free_bytes=0, max_connections=50)) as collector, ExitStack() as links:
        for _ in range(1000):
            links.enter_context(collector.connect()).sendall(b"PUT /archives/")
        assert collector.put(ARCHIVE).status == 201
        assert collector.metric("connections") <= 51
        assert collector.metric("connections_evicted_total") >= 950


@pytest.mark.slow
def test_a_thousand_handshakes_that_never_end_keep_no_device_out(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "localhost")
    tls = TlsFiles(certificate=certificate, key=key)
    limits = Limits(min_free_bytes=0, max_connections=50)
    with running_collector(tmp_path, limits, tls) as collector, ExitStack() as links:
        for _ in range(1000):
            links.enter_context(collector.connect()).sendall(b"\x16\x03\x01\x02\x00\x01")  # half a greeting
        context = ssl.create_default_context(cafile=certificate)
        with collector.connect() as plain, context.wrap_socket(plain, server_hostname="localhost") as device:
            device.sendall(head_of("PUT", CLAIM, len(ARCHIVE)) + ARCHIVE)
            assert device.recv(100).startswith(b"HTTP/1.1 201")


def test_clients_that_linger_after_a_refusal_keep_no_device_out(tmp_path: Path) -> None:
    limits = Limits(min_free_bytes=0, max_connections=5)
    with running_collector(tmp_path, limits) as collector, ExitStack() as links:
        for _ in range(5):
            link = links.enter_context(collector.connect())
            link.sendall(head_of("PUT", CLAIM, 9).replace(b"Authorization", b"Nothing"))
            assert link.recv(100).startswith(b"HTTP/1.1 401")  # and stays, with its body unsent
        assert collector.put(ARCHIVE).status == 201


def test_connections_at_work_are_not_evicted(tmp_path: Path) -> None:
    limits = Limits(min_free_bytes=0, max_connections=1)
    with running_collector(tmp_path, limits) as collector, collector.connect() as at_work:
        at_work.sendall(head_of("PUT", CLAIM, len(ARCHIVE), "Expect: 100-continue"))
        assert at_work.recv(100).startswith(b"HTTP/1.1 100")
        with collector.connect() as late:
            assert late.recv(100).startswith(b"HTTP/1.1 503")
        at_work.sendall(ARCHIVE)
        assert at_work.recv(100).startswith(b"HTTP/1.1 201")


def test_unfinished_uploads_of_a_device_are_few(collector: RunningCollector) -> None:
    claims = [claim_of(hashlib.sha256(b"%d" % number).digest(), 100) for number in range(10)]
    for claim in claims:
        assert collector.patch(b"some", 0, claim).status == 202
    assert len(collector.parts()) == Limits().max_uploads_per_device
    assert collector.head(claims[0]).offset == 0
    assert collector.head(claims[-1]).offset == 4


def test_unfinished_uploads_expire(collector: RunningCollector) -> None:
    collector.patch(b"some", 0, CLAIM)
    part = collector.intake.uploads.path(CLAIM)
    modified_s = part.stat().st_mtime
    assert collector.intake.uploads.expire(modified_s + Limits().upload_expiry_s - 1) == 0
    assert collector.intake.uploads.expire(modified_s + Limits().upload_expiry_s + 1) == 1
    assert collector.parts() == {}


# Heads


@pytest.mark.parametrize(
    "flood",
    [
        b"GET /" + b"a" * 10 * MAX_HEAD_BYTES,
        b"GET / HTTP/1.1\r\n" + b"X-Flood: yes\r\n" * MAX_HEAD_BYTES,
        b"GET / HTTP/1.1\r\nX-Flood: " + b"a" * 10 * MAX_HEAD_BYTES,
    ],
    ids=["target", "many headers", "one header"],
)
def test_a_flood_of_headers_is_refused(collector: RunningCollector, flood: bytes) -> None:
    with collector.connect() as link:
        try:
            link.sendall(flood)
            assert link.recv(100).startswith(b"HTTP/1.1 431")
        except (ConnectionResetError, BrokenPipeError):
            pass  # it did not wait for the end of it
    assert collector.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize("noise", [b"\x00\xff" * 50 + b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"HELO\r\n\r\n"])
def test_what_is_not_http_is_refused(tmp_path: Path, noise: bytes) -> None:
    with running_collector(tmp_path, IMPATIENT) as collector, collector.connect() as link:
        link.sendall(noise)
        assert all_of(link)[:12] in (b"", b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "path",
    [
        "/archives/../../etc/passwd",
        "/archives/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/archives/" + "A" * 64,
        "/archives/" + "a" * 63,
        "/archives/" + "a" * 65,
        "/archives/" + "a" * 64 + "/",
        "/archives/" + "a" * 64 + "?x",
        "//archives/" + "a" * 64,
        "/archives/./" + "a" * 64,
        "/archives/" + "a" * 62 + "\u0661\u0662".encode().decode("latin-1"),
        "*",
        "/",
    ],
)
def test_any_other_path_is_not_found(collector: RunningCollector, path: str) -> None:
    before = sorted(collector.folders.state.parent.rglob("*"))
    head = f"PUT {path} HTTP/1.1\r\nHost: test\r\nAuthorization: {CLAIM.to_header()}\r\nContent-Length: 4\r\n\r\n"
    assert exchange(collector, head.encode("latin-1") + b"evil").split()[1] in (b"400", b"404")
    assert sorted(collector.folders.state.parent.rglob("*")) == before


def test_archives_are_not_given_out_or_deleted(collector: RunningCollector) -> None:
    collector.put(ARCHIVE)
    for method in ("GET", "DELETE", "POST"):
        reply = collector.ask(method, archive_path(CLAIM.archive), Authorization=CLAIM.to_header())
        assert reply.code == "method-not-allowed"
    assert list(collector.landed().values()) == [ARCHIVE]


# Who


def test_a_request_without_a_claim_is_refused(collector: RunningCollector) -> None:
    reply = collector.ask("PUT", archive_path(CLAIM.archive), ARCHIVE)
    assert (reply.code, reply.headers["www-authenticate"]) == ("claim-missing", "Headgate")
    assert collector.ask("HEAD", archive_path(CLAIM.archive)).status == 401
    assert collector.parts() == {}


@pytest.mark.parametrize("value", ["Headgate", "Headgate !!!", "Headgate AAAA", "Bearer x", "Headgate " + "A" * 2000])
def test_a_claim_that_is_none_is_refused(collector: RunningCollector, value: str) -> None:
    reply = collector.ask("PUT", archive_path(CLAIM.archive), ARCHIVE, Authorization=value)
    assert reply.code == "claim-invalid"


def test_a_claim_to_another_archive_is_refused(collector: RunningCollector) -> None:
    other = claim_for(b"something else")
    reply = collector.ask("PUT", archive_path(CLAIM.archive), ARCHIVE, Authorization=other.to_header())
    assert reply.code == "claim-invalid"


def test_a_claim_made_for_another_collector_is_refused(collector: RunningCollector) -> None:
    assert collector.put(ARCHIVE, claim_for(ARCHIVE, collector_key=b"k" * 32)).code == "other-collector"


def test_an_unknown_device_leaves_no_byte(tmp_path: Path) -> None:
    with running_collector(tmp_path, enrolled=False) as collector:
        assert collector.put(ARCHIVE).code == "device-unknown"
        assert list(collector.folders.uploads.iterdir()) == []
        device = Device(address=BINDING.address, archive_key=BINDING.archive_key, enrolled_at_ms=1)
        collector.intake.allow_list.enrol(device)
        assert collector.put(ARCHIVE).status == 201  # enrolment counts at once


def test_a_device_enrolled_by_its_address_waits_until_its_archive_key_is_confirmed(tmp_path: Path) -> None:
    with running_collector(tmp_path, enrolled=False) as collector:
        allow_list = collector.intake.allow_list
        allow_list.enrol(Device(address=BINDING.address, enrolled_at_ms=1))
        refused = collector.put(ARCHIVE)
        key = BINDING.archive_key.hex()
        assert (refused.status, refused.code) == (403, "key-unconfirmed")
        assert f"headgate collector confirm {checksum_address(BINDING.address)} {key[:16]}".encode() in refused.body
        assert list(collector.folders.uploads.iterdir()) == []
        other = sign_binding(IDENTITY, bytes(OTHER_KEY.verify_key))
        assert b"another key was offered before" in collector.put(ARCHIVE, claim_by(OTHER_KEY, other)).body
        found = allow_list.find(BINDING.address)
        assert found is not None
        assert found.offered_key == BINDING.archive_key  # the first one stays
        allow_list.confirm(BINDING.address, key[:16])
        assert collector.put(ARCHIVE, claim_by(OTHER_KEY, other)).code == "device-unknown"
        assert collector.put(ARCHIVE).status == 201


def test_an_archive_of_the_device_with_another_archive_key_than_the_confirmed_is_refused(
    collector: RunningCollector,
) -> None:
    header = dataclasses.replace(HEADER, binding=sign_binding(IDENTITY, bytes(OTHER_KEY.verify_key)))
    writer = ArchiveWriter(header, sign=lambda message: OTHER_KEY.sign(message).signature)
    reply = collector.put(writer.begin() + writer.add(record(1)) + writer.finish(EMPTY_LOG.entry({1: 12})))
    assert reply.code == "archive-invalid"
    assert b"not with the one of the claim" in reply.body
    assert nothing_is_stored(collector)


def claim_by(key: SigningKey, binding: Binding) -> UploadClaim:
    return sign_claim(claim_statement(ARCHIVE, binding=binding), lambda message: key.sign(message).signature)


def test_a_revoked_device_is_refused_from_the_next_request_on(collector: RunningCollector) -> None:
    assert collector.patch(ARCHIVE[:HALF], 0, CLAIM).status == 202
    collector.intake.allow_list.revoke(BINDING.address, now_ms=2)
    assert collector.patch(ARCHIVE[HALF:], HALF, CLAIM).code == "device-revoked"
    assert nothing_is_stored(collector)


def test_a_device_enrolled_with_its_archive_key_may_use_no_other(collector: RunningCollector) -> None:
    device = Device(address=BINDING.address, enrolled_at_ms=1, archive_key=b"k" * 32)
    collector.intake.allow_list.enrol(device)
    assert collector.put(ARCHIVE).code == "device-unknown"
    collector.intake.allow_list.enrol(dataclasses.replace(device, archive_key=BINDING.archive_key))
    assert collector.put(ARCHIVE).status == 201


# What


def test_bytes_that_do_not_hash_to_the_name_are_forgotten(collector: RunningCollector) -> None:
    forged = ARCHIVE[:HALF] + b"?" + ARCHIVE[HALF + 1 :]
    assert collector.put(forged, CLAIM).code == "digest-mismatch"
    assert nothing_is_stored(collector)
    assert collector.parts() == {}
    assert collector.put(ARCHIVE).status == 201


def test_an_upload_resumed_with_other_bytes_is_forgotten(collector: RunningCollector) -> None:
    collector.patch(b"x" * HALF, 0, CLAIM)
    assert collector.patch(ARCHIVE[HALF:], HALF, CLAIM).code == "digest-mismatch"
    assert nothing_is_stored(collector)
    assert collector.head(CLAIM).offset == 0


def test_an_upload_goes_on_from_no_other_byte_than_where_it_stopped(collector: RunningCollector) -> None:
    collector.patch(ARCHIVE[:HALF], 0, CLAIM)
    for offset in (0, HALF - 1, HALF + 1, len(ARCHIVE), 2**40):
        reply = collector.patch(b"", offset, CLAIM)
        assert (reply.code, reply.offset) == ("offset-mismatch", HALF)
    assert collector.ask("PATCH", archive_path(CLAIM.archive), b"", Authorization=CLAIM.to_header()).status == 400
    assert collector.patch(ARCHIVE[HALF:], HALF, CLAIM).status == 201


def test_what_is_no_archive_is_refused_though_it_hashes_to_its_name(collector: RunningCollector) -> None:
    for data in (b"rubbish", ARCHIVE[:-1], ARCHIVE + b"more", PREAMBLE):
        assert collector.put(data).code == "archive-invalid"
    assert nothing_is_stored(collector)
    assert collector.parts() == {}


def test_an_archive_of_another_device_is_refused(collector: RunningCollector) -> None:
    header = dataclasses.replace(HEADER, binding=OTHER_BINDING)
    writer = ArchiveWriter(header, sign=lambda message: OTHER_KEY.sign(message).signature)
    foreign = writer.begin() + writer.add(record(1)) + writer.finish(EMPTY_LOG.entry({1: 12}))
    reply = collector.put(foreign)
    assert reply.code == "archive-invalid"
    assert b"uploaded by" in reply.body


def test_an_archive_whose_signature_is_forged_is_refused(collector: RunningCollector) -> None:
    writer = ArchiveWriter(HEADER, sign=lambda message: OTHER_KEY.sign(message).signature)
    forged = writer.begin() + writer.add(record(1)) + writer.finish(EMPTY_LOG.entry({1: 12}))
    assert collector.put(forged).code == "archive-invalid"


def test_an_archive_with_an_altered_block_is_refused(collector: RunningCollector) -> None:
    (first, *_) = open_archive(read_at_of(ARCHIVE), len(ARCHIVE)).manifest.blocks
    altered = bytearray(ARCHIVE)
    altered[first.offset + first.frame_bytes // 2] ^= 1  # the device vouches for the file, but its manifest does not
    reply = collector.put(bytes(altered))
    assert (reply.status, reply.code) == (422, "archive-invalid")
    assert b"block 0 is not the one that the device signed" in reply.body
    assert nothing_is_stored(collector)


def test_an_archive_encrypted_for_another_is_refused(collector: RunningCollector) -> None:
    assert collector.put(encrypt(ARCHIVE, PrivateKey(b"o" * 32).public_key)).code == "encrypted-for-another"


def test_one_device_cannot_take_the_receipt_for_a_encrypted_archive_of_another(collector: RunningCollector) -> None:
    other = Device(address=OTHER_BINDING.address, archive_key=OTHER_BINDING.archive_key, enrolled_at_ms=1)
    collector.intake.allow_list.enrol(other)
    encrypted = encrypt(ARCHIVE, DECRYPTION_KEY.public_key)
    thief = sign_claim(
        claim_statement(encrypted, binding=OTHER_BINDING), lambda message: OTHER_KEY.sign(message).signature
    )
    assert collector.put(encrypted, thief).receipt.device == OTHER_BINDING.address
    assert collector.put(encrypted).receipt.device == BINDING.address
    assert len(collector.landed()) == 1


def test_a_compressed_body_is_refused(collector: RunningCollector) -> None:
    answer = exchange(collector, head_of("PUT", CLAIM, len(ARCHIVE), "Content-Encoding: gzip") + ARCHIVE)
    assert answer.startswith(b"HTTP/1.1 400")
    assert collector.parts() == {}


def test_a_bomb_within_a_block_is_never_unpacked(tmp_path: Path) -> None:
    bomb = write_archive([record(number, text=b"a" * 4_000_000) for number in range(3)], block_target_bytes=2**21)
    assert len(bomb) < 10_000
    path = tmp_path / "bomb"
    path.write_bytes(bomb)
    tracemalloc.start()
    verify_archive(path, claim_for(bomb), bytes(DECRYPTION_KEY.public_key))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 1_000_000


def test_a_manifest_made_to_exhaust_the_reader_is_refused(collector: RunningCollector) -> None:
    deep = b"\x81" * 1_000_000  # arrays within arrays
    start = PREAMBLE + encode_frame(FrameKind.HEADER, HEADER.to_bytes())
    end = encode_frame(FrameKind.SIGNATURE, SIGNATURE.pack(len(start), sign(bytes_to_sign(deep))))
    assert collector.put(start + encode_frame(FrameKind.MANIFEST, deep) + end).code == "archive-invalid"


def test_a_damaged_file_of_the_collector_is_its_own_fault_and_stops_nothing(collector: RunningCollector) -> None:
    path = collector.folders.devices / f"0x{BINDING.address.hex()}.json"
    path.write_text("{")
    assert collector.put(ARCHIVE).code == "fault"
    assert collector.ask("GET", "/healthz").status == 200


def test_a_client_that_speaks_tls_to_a_port_without_gets_nothing(collector: RunningCollector) -> None:
    context = ssl.create_default_context()
    with collector.connect() as link, pytest.raises(ssl.SSLError):
        context.wrap_socket(link, server_hostname="test")
    assert collector.ask("GET", "/healthz").status == 200
