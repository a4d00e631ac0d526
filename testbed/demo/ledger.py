"""The account at the end: what the devices produced, what the lake has, and the line that everything is about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Account", "account_for"]

COLUMNS: Final = ("device", "stream", "produced", "archived", "ingested", "copies", "quarantine", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    lines: tuple[str, ...]
    produced: int
    ingested: int
    lost: int
    duplicated: int
    is_settled: bool


def account_for(chains: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> Account:
    """Of the rows of a ledger; `names` are those of the devices by address. Chains of one stream are summed up."""
    rows: dict[tuple[str, str], list[int]] = {}
    for chain in chains:
        stream = str(chain["chain"]).partition("#")[0].rpartition("/")[2]
        row = rows.setdefault((names.get(chain["device"], chain["device"]), stream), [0] * 6)
        lost = chain["lost_explained"] + chain["lost_unexplained"]
        figures = ("produced", "archived", "ingested", "duplicate", "quarantined")
        for index, figure in enumerate([*(chain[name] for name in figures), lost]):
            row[index] += figure
    sums = [sum(column) for column in zip(*rows.values(), strict=True)] or [0] * 6
    produced, _, ingested, _, quarantined, lost = sums
    duplicated = sum(chain.get("counted", chain["ingested"]) - chain["ingested"] for chain in chains)
    is_whole = all(chain["balanced"] for chain in chains) and produced == ingested > 0
    return Account(
        lines=_table([*([*key, *map(str, row)] for key, row in sorted(rows.items())), ["all", "", *map(str, sums)]]),
        produced=produced,
        ingested=ingested,
        lost=lost,
        duplicated=duplicated,
        is_settled=is_whole and (lost, duplicated, quarantined) == (0, 0, 0),
    )


def _table(rows: list[list[str]]) -> tuple[str, ...]:
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    lines = ["  ".join(_cells(row, widths)).rstrip() for row in [list(COLUMNS), *rows]]
    rule = "─" * max(map(len, lines))
    return (lines[0], rule, *lines[1:-1], rule, lines[-1])


def _cells(row: list[str], widths: list[int]) -> list[str]:
    """Names to the left, figures to the right."""
    return [
        cell.ljust(width) if index < 2 else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
