"""Faults that take away or bring back what a part has stored: cards are copied, backups restored, archives deleted.

A part is stopped in order before its files change. What goes is moved aside (`Removed`).
"""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from protocol.archive.random_access import OpenArchive, open_archive
from testbed.bench.bench import Bench, wait_until
from testbed.bench.servers import CollectorServer
from testbed.errors import BenchError
from testbed.processes import run_all, run_in_thread
from testbed.scenario.faults import (
    ClonedCard,
    CollectorRestoredFromBackup,
    Fault,
    LandingLosesArchives,
    ReceiptsLost,
    Restart,
    RestoredBackup,
)
from testbed.tcp_proxy import TcpProxy

RECEIPT_REQUESTS: Final = "(PUT|PATCH) /archives/|GET /receipts/"


async def wipe_data(bench: Bench, name: str, fault: Restart) -> None:
    """The keys stay: they are elsewhere."""
    agent = bench.agents[name]
    await bench.stop_agent(name)
    await asyncio.to_thread(bench.removed.take_data, agent.data, name)
    await asyncio.sleep(fault.for_s)
    await run_in_thread(agent.process.start)


async def clone_card(bench: Bench, name: str, fault: ClonedCard) -> None:
    agent, copy = bench.agents[name], bench.agents[fault.copy]
    await bench.stop_agent(name)
    await asyncio.to_thread(shutil.copytree, agent.data, copy.data)
    await run_all([agent.process.start, copy.process.start])


async def restore_backup(bench: Bench, name: str, fault: RestoredBackup) -> None:
    agent, collector = bench.agents[name], bench.collector_of(name)
    backup = agent.folder / "backup"
    await bench.stop_agent(name)
    await asyncio.to_thread(shutil.copytree, agent.data, backup)
    await run_in_thread(agent.process.start)
    await _wait_for_receipts(partial(collector.receipts, agent.keys.address), fault.archives)
    await bench.stop_agent(name)
    await asyncio.to_thread(bench.removed.take_data, agent.data, name)
    await asyncio.to_thread(shutil.move, backup, agent.data)
    await run_in_thread(agent.process.start)


async def restore_collector(bench: Bench, collector: CollectorServer, fault: CollectorRestoredFromBackup) -> None:
    folders = {place: place.with_name(f"{place.name}.backup") for place in (collector.landing, collector.state)}
    await run_in_thread(collector.process.stop)
    for place, backup in folders.items():
        await asyncio.to_thread(shutil.copytree, place, backup)
    await run_in_thread(collector.process.start)
    await _wait_for_receipts(collector.receipts, fault.archives)
    await run_in_thread(collector.process.stop)
    await asyncio.to_thread(bench.removed.take_archives, collector.archives())
    for place, backup in folders.items():
        await asyncio.to_thread(shutil.rmtree, place)
        backup.rename(place)
    await run_in_thread(collector.process.start)


async def _wait_for_receipts(count: Callable[[], int], wanted: int) -> None:
    """Wait until so many more are given, while others may be deleted."""
    given, before = 0, count()

    def count_given() -> int:
        nonlocal given, before
        now = count()
        given, before = given + max(0, now - before), now
        return given

    await wait_until(lambda: count_given() >= wanted, f"{wanted} more receipts are given", lambda: given)


async def delete_receipts(collector: CollectorServer) -> None:
    await run_in_thread(collector.process.stop)
    await asyncio.to_thread(shutil.rmtree, collector.receipts_folder)
    await run_in_thread(collector.process.start)


async def withhold_receipts(link: TcpProxy, fault: ReceiptsLost) -> None:
    """Cut the link after an upload, before the response."""
    wanted = link.unanswered + fault.receipts
    link.withhold_responses(RECEIPT_REQUESTS)
    await wait_until(lambda: link.unanswered >= wanted, f"{fault.receipts} receipts are lost", lambda: link.unanswered)
    link.withhold_responses(None)


async def delete_archives(bench: Bench, name: str, fault: LandingLosesArchives) -> None:
    """Raises: BenchError if there are too few."""
    collector, device = bench.collector_of(name), bench.agents[name].keys.address
    await wait_until(lambda: collector.receipts(device) > 0, f"{fault.target} has an archive in the landing area")
    async with bench.lock(f"collectors.{bench.scenario.agents[name].collector}"):
        landed = {path: _open(path) for path in collector.archives()}
        own = {path: archive for path, archive in landed.items() if archive.header.binding.address == device}
        in_order = sorted(own, key=lambda path: (path.stat().st_mtime_ns, own[path].manifest.entry.number))
        chosen = _choose(in_order, own, fault)
        if not chosen:
            raise BenchError(f"{fault.target}: {len(own)} archives are in the landing area, too few to delete some")
        await asyncio.to_thread(bench.removed.take_archives, chosen)


def _choose(in_order: Sequence[Path], archives: dict[Path, OpenArchive], fault: LandingLosesArchives) -> Sequence[Path]:
    middle = len(in_order) // 2
    match fault.which:
        case "first":
            return in_order[:1]
        case "middle":
            return in_order[middle : middle + 1]
        case "last":
            return in_order[-1:]
        case "process_run":
            chains = _chains_of_a_run(in_order, archives)
            return [path for path in in_order if chains & {each.chain for each in archives[path].manifest.chains}]


def _chains_of_a_run(in_order: Sequence[Path], archives: dict[Path, OpenArchive]) -> set[str]:
    """The chains of one process run, neither the first nor the last: each run begins a new chain in each stream."""
    by_stream: dict[str, list[str]] = {}
    for path in in_order:
        for entry in archives[path].manifest.chains:
            chains = by_stream.setdefault(entry.chain.partition("#")[0], [])
            chains += [entry.chain] * (entry.chain not in chains)
    return {chains[len(chains) // 2] for chains in by_stream.values() if len(chains) > 2}


def _open(path: Path) -> OpenArchive:
    data = path.read_bytes()
    return open_archive(lambda offset, count: data[offset : offset + count], len(data))


async def inject_into_stored_state(bench: Bench, fault: Fault) -> bool:
    """False if the fault is of another kind."""
    name = fault.target.split(".")[1]
    match fault:
        case Restart(lose_state=True) if name in bench.agents and fault.target.startswith("agents."):
            await wipe_data(bench, name, fault)
        case ClonedCard():
            await clone_card(bench, name, fault)
        case RestoredBackup():
            await restore_backup(bench, name, fault)
        case CollectorRestoredFromBackup():
            await restore_collector(bench, bench.collector(name), fault)
        case LandingLosesArchives():
            await delete_archives(bench, name, fault)
        case ReceiptsLost() if fault.target.startswith("links."):
            await withhold_receipts(bench.links[fault.target], fault)
        case ReceiptsLost():
            await delete_receipts(bench.collector(name))
        case _:
            return False
    return True
