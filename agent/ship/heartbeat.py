"""Sends one checkpoint to a collector, and checks its answer."""

import contextlib
import hashlib
import http.client
from typing import NoReturn

from agent.archive.settings import ShipConfig
from agent.errors import LinkDown, Rejected
from agent.ship.connection import CONNECTION_ERRORS, Abort, CollectorConnection, refuse
from protocol.devicelog.answer import MAX_ANSWER_BYTES, HeartbeatAnswer
from protocol.devicelog.checkpoint import Checkpoint
from protocol.errors import WireError
from protocol.shipping import CONTENT_TYPE_CHECKPOINT, checkpoint_path


def send_checkpoint(checkpoint: Checkpoint, config: ShipConfig, collector_key: bytes, abort: Abort) -> HeartbeatAnswer:
    """The answer, signed by the configured collector for this checkpoint. Blocks; for a thread. Raises: LinkDown."""
    connection = CollectorConnection(config, abort)
    data, headers = checkpoint.to_bytes(), {"Content-Type": CONTENT_TYPE_CHECKPOINT}
    try:
        with contextlib.closing(connection):
            response = connection.ask("PUT", checkpoint_path(checkpoint.log), data, headers)
            body = response.read(MAX_ANSWER_BYTES + 1)
    except CONNECTION_ERRORS as error:
        raise connection.down(error) from error
    if response.status != http.HTTPStatus.OK:
        _refuse(response.status, body)
    answer = _read_answer(body)
    digest = hashlib.sha256(data).digest()
    if not answer.answers(checkpoint=digest, log=checkpoint.log, collector_key=collector_key):
        raise LinkDown("the answer to a checkpoint is not for this checkpoint from this collector")
    return answer


def _refuse(status: int, body: bytes) -> NoReturn:
    """Raises: LinkDown, whatever the refusal means for an archive."""
    try:
        refuse(status, body)
    except Rejected as error:
        raise LinkDown(f"the collector refuses a checkpoint: {error}") from error
    raise LinkDown(f"the collector answers {status} to a checkpoint")


def _read_answer(body: bytes) -> HeartbeatAnswer:
    try:
        return HeartbeatAnswer.from_bytes(body)
    except WireError as error:
        raise LinkDown(f"the answer to a checkpoint is not valid: {error}") from error
