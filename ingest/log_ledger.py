"""The ledger of the device logs: one row per log and lane, one gap per run of missing positions, and the totals.

A loss that the device reported explains positions that archives cover and do not hold. Where the archive that would
have covered them is missing too, it explains those: they are lost, and not missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ingest.device_logs import Ending, LogAccount, LogName, Range, find_endings, length
from protocol.losses import Loss

ARCHIVE_MISSING: Final = "archive missing"

LaneName = tuple[str, str, int]  # device, journal, lane


@dataclass(slots=True)
class LossBudget:
    """The losses of one lane of one journal that explain nothing yet."""

    losses: list[Loss]

    def explain_missing(self, missing: list[Range]) -> int:
        """How many of the missing positions were lost before they could be archived. Each loss is used once."""
        inside = [loss for loss in self.losses if any(_is_within(loss, each) for each in missing)]
        self.losses = [loss for loss in self.losses if loss not in inside]
        return min(sum(loss.count for loss in inside), length(missing))

    def explain_lost(self, lost: int) -> int:
        return min(lost, sum(loss.count for loss in self.losses))


@dataclass(frozen=True, slots=True)
class LogLedger:
    rows: list[dict[str, Any]]  # one per log and lane
    gaps: list[dict[str, Any]]  # one per run of missing positions


def make_log_ledger(logs: Mapping[LogName, LogAccount], losses: Mapping[tuple[str, str, int], Loss]) -> LogLedger:
    """`losses` by device, journal and number."""
    budgets = _budgets(losses)
    endings = find_endings(logs)
    ledger = LogLedger([], [])
    for name, account in sorted(logs.items()):
        for lane in sorted(account.lanes):
            budget = budgets.setdefault((name.device, account.journal, lane), LossBudget([]))
            ledger.rows.append(_row(name, account, lane, budget, endings[name]))
            missing = account.missing(lane, endings[name])
            ledger.gaps.extend(_gap(name, lane, each) for each in missing)
    return ledger


def missing_places(logs: Mapping[LogName, LogAccount]) -> dict[LaneName, list[Range]]:
    """The missing positions by device, journal and lane."""
    endings = find_endings(logs)
    places: dict[LaneName, list[Range]] = {}
    for name, account in logs.items():
        for lane in account.lanes:
            missing = account.missing(lane, endings[name])
            places.setdefault((name.device, account.journal, lane), []).extend(missing)
    return places


def _budgets(losses: Mapping[tuple[str, str, int], Loss]) -> dict[LaneName, LossBudget]:
    budgets: dict[LaneName, LossBudget] = {}
    for (device, journal, _), loss in losses.items():
        budgets.setdefault((device, journal, loss.lane), LossBudget([])).losses.append(loss)
    return budgets


def _row(name: LogName, account: LogAccount, lane: int, budget: LossBudget, ending: Ending) -> dict[str, Any]:
    totals = account.totals(lane, ending)
    lost_unarchived = budget.explain_missing(account.missing(lane, ending))
    explained = budget.explain_lost(totals.lost)
    missing = totals.missing - lost_unarchived
    checkpoint = account.checkpoint
    return {
        "device": name.device,
        "log": name.log,
        "lane": lane,
        "journal": account.journal,
        "previous_log": account.previous_log or None,
        "produced": sum(totals),
        "arrived": totals.arrived,
        "lost_explained": explained + lost_unarchived,
        "lost_unexplained": totals.lost - explained,
        "missing": missing,
        "on_device": totals.on_device,
        "archives": length(account.numbers),
        "missing_archives": _ranges_text(account.missing_numbers()),
        "checkpoint_ms": None if checkpoint is None else checkpoint.made_at_ms,
        "abandoned": ending.is_abandoned,
        "forked": account.is_forked,
        "complete": not (missing or totals.lost - explained or account.is_forked),
    }


def _gap(name: LogName, lane: int, missing: Range) -> dict[str, Any]:
    first, end = missing
    return {
        "device": name.device,
        "log": name.log,
        "lane": lane,
        "first_position": first,
        "next_position": end,
        "missing": end - first,
        "explained": 0,
        "held": 0,
        "cause": ARCHIVE_MISSING,
    }


def _is_within(loss: Loss, missing: Range) -> bool:
    return missing[0] <= loss.first_position and loss.last_position < missing[1]


def _ranges_text(numbers: Iterable[Range]) -> str | None:
    """Such as `3, 7-9`; null where there are none."""
    return ", ".join(_range_texts(numbers)) or None


def _range_texts(numbers: Iterable[Range]) -> Iterator[str]:
    for first, end in numbers:
        yield str(first) if end == first + 1 else f"{first}-{end - 1}"
