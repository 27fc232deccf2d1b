"""A small run that proves the benchmark's own checks: they pass on a good run, and complain about a bad one."""

import json
from pathlib import Path
from typing import Callable

from compare import run_once
from measure import Meter
from ours import ARCHIVE, JOURNAL_EVENTS, Incomplete, Ours, agents_cpu, check
from system_peers import Make, Ninja, Xargs
from tools import SEARCH_PATH, Prepared, Tool, WentWrong
from workloads import Workload, make

TASKS = 20


class Faulty(Exception):
    """A check of the benchmark does not do its work."""


def run(ours: Ours, scratch: Path, meter: Meter) -> list[str]:
    """Returns what was proven, one line each; raises `Faulty` at the first thing that is not so."""
    proven = []
    for kind in ("wide", "chain", "diamond"):
        run_once(ours, make(kind, TASKS), scratch / f"wk-{kind}", meter)
        proven.append(f"wk: {TASKS} tasks, {kind}: every folder, file and journal line is there")
    if not agents_cpu(scratch / "wk-wide") > 0:
        raise Faulty("the agents' exit records have no CPU time")
    peers = [peer for peer in (Ninja("true"), Make(), Xargs()) if not peer.missing()][:2]
    if len(peers) < 2:
        raise Faulty("two of ninja, make and xargs are needed")
    for peer in peers:
        run_once(peer, make("wide", TASKS), scratch / peer.name, meter)
        proven.append(f"{peer.name}: {TASKS} tasks, wide")
    proven += damage(scratch / "wk-wide", make("wide", TASKS))
    if not Ninja("true").missing():
        expect(WentWrong, lambda: Ninja("true").check(scratch / "ninja", make("wide", TASKS + 1)))
        proven.append("ninja: one task too few is noticed")
    for name, each in (("orphan", meter), ("orphan-without-group", Meter(may_group=False))):
        count_orphans(scratch / name, each)
        proven.append(f"the CPU time of a process that nobody waits for is counted: {each.how()}")
    return proven


def damage(directory: Path, workload: Workload) -> list[str]:
    """Takes away one thing after the other, and puts it back: each must be missed."""
    proven = []
    attempt = directory / ARCHIVE / "attempts/7/1"
    for name in ("stdout.log", "stderr.log", "exit.json", "result.json", "."):
        victim = attempt / name
        aside = directory / "aside"
        victim.resolve().rename(aside)
        expect(Incomplete, lambda: check(directory, workload))
        aside.rename(victim if name != "." else attempt)
        proven.append(f"wk: a missing {'attempt folder' if name == '.' else name} is noticed")
    journal = directory / ARCHIVE / "journal.jsonl"
    whole = journal.read_text()
    for event in JOURNAL_EVENTS:
        journal.write_text("".join(line for line in whole.splitlines(True) if not is_about(line, event, "7")))
        expect(Incomplete, lambda: check(directory, workload))
        proven.append(f"wk: a missing `{event}` in the journal is noticed")
    journal.write_text(whole)
    check(directory, workload)
    return proven


def is_about(line: str, event: str, task: str) -> bool:
    said = json.loads(line)
    return said["event"] == event and (said.get("task") or said["exit"]["task"]) == task


class Orphan(Tool):
    """Leaves a process behind that works for a while after its parent is gone."""

    name = "orphan"

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
        return Prepared(["/bin/sh", "-c", f"( {busy} ) & exit 0"], {"PATH": SEARCH_PATH})


def count_orphans(directory: Path, meter: Meter) -> None:
    spent = run_once(Orphan(), make("wide", 1), directory, meter)
    if spent.cpu < 0.02 or spent.cpu < 5 * (spent.own_user + spent.own_system):
        raise Faulty(f"the CPU time of an orphan is not counted: {spent}")


def expect(kind: type[Exception], deed: Callable[[], None]) -> None:
    try:
        deed()
    except kind:
        return
    raise Faulty(f"{kind.__name__} should have been raised")
