"""`wk run` with its defaults, and the proof that it did for every task all that it promises.

A run that left out an attempt's folder, a log or a line of the journal is no measurement: `check` complains.
"""

import json
from pathlib import Path

from tools import PARALLEL, Prepared, Tool
from workloads import Workload

ATTEMPT_FILES = ("stdout.log", "stderr.log", "exit.json", "result.json")
JOURNAL_EVENTS = ("launched", "exited", "collected", "succeeded")
ARCHIVE = Path(".ce/orchestration/completed-batches/batch-1")


class Incomplete(Exception):
    """Something that every task must have left behind is not there."""


class Ours(Tool):
    kinds = ("wide", "chain", "diamond")
    most = None
    is_durable = True

    def __init__(self, program: Path, settings: tuple[str, ...] = ()):
        self.program = program
        self.settings = settings
        self.name = "wk" if not settings else "wk-nosync"
        self.label = "**`wk run`**" if not settings else "`wk run`, journal not synced"
        self.durability = (
            "every decision in a checksummed journal, `fdatasync` once a turn before it is acted on; a folder with "
            "logs, exit record and result for each attempt"
            if not settings
            else "as above, but a power cut may lose the last lines"
        )

    def missing(self) -> str | None:
        return None if self.program.exists() else f"no {self.program}"

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        (directory / "plan.json").write_text(json.dumps({"phases": phases(workload)}))
        argv = [str(self.program), "run", "-q", "--root", str(directory), "--set", f"parallel_limit={PARALLEL}"]
        for setting in self.settings:
            argv += ["--set", setting]
        return Prepared([*argv, "plan.json"])

    def check(self, directory: Path, workload: Workload) -> None:
        check(directory, workload)


def phases(workload: Workload) -> list[dict]:
    return [
        {
            "id": str(number),
            "name": f"Task {number}",
            "goal": "Nothing.",
            "complexity": "low",
            "estimated_hours": 0,
            "files_modified": [],
            "dependencies": [str(dependency) for dependency in dependencies],
            "command": ["true"],
        }
        for number, dependencies in enumerate(workload.dependencies)
    ]


def check(directory: Path, workload: Workload) -> None:
    """Raises `Incomplete` unless every task has its attempt's folder, its files and its lines in the journal."""
    archive = directory / ARCHIVE
    faults = []
    for number in range(workload.tasks):
        attempt = archive / "attempts" / str(number) / "1"
        if not attempt.is_dir():
            faults.append(f"task {number}: no folder {attempt}")
            continue
        faults += [f"task {number}: no {name}" for name in ATTEMPT_FILES if not (attempt / name).is_file()]
    seen = {event: set() for event in JOURNAL_EVENTS}
    for line in read_journal(directory):
        if line["event"] in seen:
            seen[line["event"]].add(line.get("task") or line["exit"]["task"])
    for event, tasks in seen.items():
        lacking = [number for number in range(workload.tasks) if str(number) not in tasks]
        faults += [f"task {number}: no `{event}` in the journal" for number in lacking]
    if faults:
        more = f" (and {len(faults) - 5} more)" if len(faults) > 5 else ""
        raise Incomplete(f"in {directory}: " + "; ".join(faults[:5]) + more)


def read_journal(directory: Path) -> list[dict]:
    with open(directory / ARCHIVE / "journal.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def agents_cpu(directory: Path) -> float:
    """What the agents themselves took, in seconds, as their runners measured it."""
    exits = (line["exit"] for line in read_journal(directory) if line["event"] == "exited")
    return sum(exit["cpu_seconds"] for exit in exits)
