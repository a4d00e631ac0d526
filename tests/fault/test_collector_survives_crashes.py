"""The collector, crashed anywhere over several lives, on a disk that loses power and fails to sync.

| given | law, in every later life |
|---|---|
| a receipt | it is stored, the archive is whole in the landing area, its number and digest are in the log |
| an answer to a checkpoint | this checkpoint, or a newer one, is in the landing area |
| a refusal with `log-forked` | the log is marked as forked, and the evidence is whole |
"""

import hashlib
import random
from pathlib import Path

import pytest

from ingest.collector.errors import UploadRefused
from ingest.collector.intake import Intake
from ingest.collector.leaves import LeafFiles
from ingest.collector.logs import STATE, read_state
from protocol.devicelog.answer import HeartbeatAnswer, LogStatus
from protocol.devicelog.checkpoint import Checkpoint, Relation
from protocol.devicelog.merkle import root
from protocol.shipping import Refusal, checkpoint_name
from tests.effort import seeds
from tests.fault.test_small_files_survive_crashes import live_on
from tests.support.archives import BINDING, LOG
from tests.support.collectors import DECRYPTION_KEY, PATIENT, SIGNING_KEY, claim_for, make_folders
from tests.support.logging_device import LoggingDevice

ARCHIVES = 8


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


class Lives:
    """What was given so far, over all processes."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._device, self._clone = LoggingDevice(), LoggingDevice(flavour=b"clone")
        self._checkpoints = [self._device.checkpoint()]
        for _ in range(ARCHIVES):
            self._device.archive()
            self._checkpoints.append(self._device.checkpoint())
        self._clone.archives_made(3)
        self._receipts: dict[bytes, bytes] = {}  # archive → receipt
        self._answered: list[Checkpoint] = []
        self._refused: list[bytes] = []

    def run(self, folder: Path) -> None:
        """One process."""
        intake = Intake(make_folders(folder), PATIENT, SIGNING_KEY, bytes(DECRYPTION_KEY.public_key))
        self._check(intake, folder)
        for _ in range(self._chance.randint(1, 5)):
            if self._chance.random() < 0.2:
                checkpoint = self._chance.choice(self._checkpoints)
                answer = HeartbeatAnswer.from_bytes(intake.heartbeats.accept(checkpoint, 1))
                if answer.status is not LogStatus.FORKED:  # then it need not be stored there
                    self._answered.append(checkpoint)
            else:
                self._upload(intake, self._chance.choice((*self._device.archives, self._clone.archives[-1])))
        self._check(intake, folder)

    def _upload(self, intake: Intake, data: bytes) -> None:
        """As a request to the collector does."""
        claim = claim_for(data)
        try:
            receipt = intake.find_receipt(claim)
            if receipt is None and intake.landing.holds(claim.archive):
                receipt = intake.issue_missing_receipt(claim)
            if receipt is None:
                upload = intake.begin(claim, None, len(data))
                try:
                    upload.append(data)
                    receipt = intake.complete(claim)
                finally:
                    intake.uploads.close(upload)
            self._receipts[data] = receipt
        except UploadRefused as refused:
            if refused.refusal is not Refusal.LOG_FORKED:
                raise
            self._refused.append(data)

    def _check(self, intake: Intake, folder: Path) -> None:
        log = folder / "state" / "logs" / BINDING.address.hex() / LOG.hex()
        for data, receipt in self._receipts.items():
            assert intake.landing.path(digest(data)).read_bytes() == data
            assert intake.receipts.find(claim_for(data)) == receipt
            number = claim_for(data).entry.number
            assert read_state(log / STATE).holds(number)
            assert LeafFiles(log).read(number).sha256 == digest(data)
        if (log / STATE).exists():
            state = read_state(log / STATE)
            leaves = [leaf.sha256 for leaf in LeafFiles(log).read_range(0, state.frontier.size)]
            assert state.frontier.root == root(leaves)
            assert state.is_forked or not self._refused
        for path in folder.glob("landing/*.hga"):
            assert path.stem == digest(path.read_bytes()).hex()
        for path in folder.glob("state/forks/*/*/*.hga"):
            assert path.stem == digest(path.read_bytes()).hex()
            assert path.with_suffix(".claim").exists()
        if self._answered:
            landed = Checkpoint.from_bytes((folder / "landing" / checkpoint_name(BINDING.address, LOG)).read_bytes())
            relations = {landed.relation_to(each) for each in self._answered}
            assert relations <= {Relation.EQUAL, Relation.NEWER}


@pytest.mark.parametrize("seed", seeds(test=12, soak=3000))
def test_nothing_that_was_given_is_ever_taken_back(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    live_on(tmp_path, chance, Lives(chance).run, operations=60)
