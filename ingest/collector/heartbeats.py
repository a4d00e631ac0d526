"""Accepts checkpoints, stores the newest of each log for the ingest, and answers with what the collector holds.

The newest checkpoint is the one that states most, whatever the clocks say; an old one that is sent again changes
nothing. It is stored in the landing area first and in the state of the log after that, so that after a crash in between
the next one is stored in both again.
"""

import hashlib
from collections.abc import Callable

from ingest.collector.contradictions import of_checkpoints
from ingest.collector.devices import AllowList
from ingest.collector.errors import UploadRefused
from ingest.collector.forks import ForkEvidence
from ingest.collector.landing import Landing
from ingest.collector.log_state import Contradiction
from ingest.collector.logs import DeviceLog, Logs
from protocol.devicelog.answer import MAX_MISSING_RANGES, AnswerStatement, HeartbeatAnswer, LogStatus, sign_answer
from protocol.devicelog.checkpoint import Checkpoint, Relation
from protocol.errors import WireError
from protocol.shipping import Refusal


class Heartbeats:
    def __init__(
        self,
        allow_list: AllowList,
        logs: Logs,
        landing: Landing,
        forks: ForkEvidence,
        *,
        collector_key: bytes,
        sign: Callable[[bytes], bytes],
    ) -> None:
        self._allow_list = allow_list
        self._logs = logs
        self._landing = landing
        self._forks = forks
        self._collector_key = collector_key
        self._sign = sign

    def admit(self, data: bytes, log: bytes) -> Checkpoint:
        """Raises: UploadRefused unless it is a checkpoint of this log, signed by a device that may upload."""
        try:
            checkpoint = Checkpoint.from_bytes(data)
        except WireError as error:
            raise UploadRefused(Refusal.CHECKPOINT_INVALID, str(error)) from error
        if checkpoint.log != log:
            raise UploadRefused(Refusal.CHECKPOINT_INVALID, "the checkpoint is of another log than the path names")
        self._allow_list.check(checkpoint.binding)
        return checkpoint

    def accept(self, checkpoint: Checkpoint, now_ms: int) -> bytes:
        """Store it if it is the newest, and sign the answer. Raises: UploadRefused, WireError, OSError."""
        with self._logs.hold(
            checkpoint.device, checkpoint.log, previous_log=checkpoint.previous_log, now_ms=now_ms
        ) as log:
            log.prepare()
            newest = log.find_checkpoint()
            contradiction = self._contradiction(log, newest, checkpoint)
            if contradiction is None:
                newest = self._store(log, newest, checkpoint)
                log.note_contact(now_ms, received=newest.size - newest.waiting)
            else:
                self._store_evidence(newest, checkpoint)
                log.mark_forked(contradiction, now_ms)
            return self._answer(log, newest, checkpoint, now_ms).to_bytes()

    def _contradiction(self, log: DeviceLog, newest: Checkpoint | None, checkpoint: Checkpoint) -> Contradiction | None:
        found = log.contradiction_of_checkpoint(checkpoint)
        if found is None and newest is not None:
            found = of_checkpoints(newest, checkpoint, (_digest(newest), _digest(checkpoint)))
        return found

    def _store(self, log: DeviceLog, newest: Checkpoint | None, checkpoint: Checkpoint) -> Checkpoint:
        """Returns the newest one. The landing area gets it again if it was removed there."""
        is_newer = newest is None or checkpoint.relation_to(newest) is Relation.NEWER
        if newest is None or is_newer:
            newest = checkpoint
        if is_newer or not self._landing.holds_checkpoint(newest.device, newest.log):
            self._landing.store_checkpoint(newest)
            log.store_checkpoint(newest.to_bytes())
        return newest

    def _store_evidence(self, *checkpoints: Checkpoint | None) -> None:
        for each in checkpoints:
            if each is not None:
                self._forks.store_checkpoint(each.device, each.log, _digest(each), each.to_bytes())

    def _answer(
        self, log: DeviceLog, newest: Checkpoint | None, checkpoint: Checkpoint, now_ms: int
    ) -> HeartbeatAnswer:
        state = log.state
        is_behind = state.known_size > checkpoint.size or (newest is not None and _states_less(checkpoint, newest))
        statement = AnswerStatement(
            checkpoint=_digest(checkpoint),
            now_ms=now_ms,
            log=checkpoint.log,
            held_size=state.frontier.size,
            held_root=state.frontier.root,
            missing=state.missing(max(checkpoint.size, state.known_size))[:MAX_MISSING_RANGES],
            status=LogStatus.FORKED if state.is_forked else LogStatus.BEHIND if is_behind else LogStatus.OK,
            collector_key=self._collector_key,
        )
        return sign_answer(statement, self._sign)


def _states_less(checkpoint: Checkpoint, newest: Checkpoint) -> bool:
    """Whether the device has fewer archives or readings than it had, so that it would use positions a second time."""
    return checkpoint.size < newest.size or checkpoint.produced < newest.produced


def _digest(checkpoint: Checkpoint) -> bytes:
    return hashlib.sha256(checkpoint.to_bytes()).digest()
