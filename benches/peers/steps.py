"""What one task of `wk run` costs, step by step, beside what the operating system charges for such a step.

The split is measured on the same runs as the comparison: the whole from the control group, the watcher's share
from its own account, the agents' from their exit records; what is left is the nursery and its runners. Inside the
watcher the steps are estimates: how often it asks for each thing, counted, times that thing's price, measured.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import median

import probes
import syscalls
from measure import Spent
from ours import Ours, agents_cpu
from report import micro, table
from tools import clean_environment
from workloads import make

# For counting calls. The start of the program is in the counts too, so a few more than one would think.
TRACED_TASKS = 200


@dataclass
class Split:
    """CPU seconds for each task of one run."""

    whole: float
    watcher_user: float
    watcher_system: float
    agents: float

    @property
    def watcher(self) -> float:
        return self.watcher_user + self.watcher_system

    @property
    def runners(self) -> float:
        return self.whole - self.watcher - self.agents


def split_of(spent: Spent, directory: Path, tasks: int) -> Split:
    return Split(spent.cpu / tasks, spent.own_user / tasks, spent.own_system / tasks, agents_cpu(directory) / tasks)


@dataclass
class Floor:
    """The prices, and how often a task pays each of them."""

    prices: dict[str, probes.Price]
    counts: syscalls.Counts | None

    def calls(self, part: str, *names: str) -> float:
        return sum(self.counts.by_part[part][name] for name in names) / TRACED_TASKS if self.counts else 0

    def made(self, part: str) -> float:
        """What the files and folders cost that this part makes."""
        price = self.prices
        renamed = price["publish"].cpu - price["file"].cpu
        files = self.calls(part, "create") * price["file"].cpu + self.calls(part, "rename") * renamed
        return files + self.calls(part, "mkdir") * price["mkdir"].cpu

    def looked_at(self, part: str) -> float:
        """What it costs to read files and to ask for their state."""
        stats = self.calls(part, "statx", "newfstatat", "getdents64", "access") * self.prices["stat"].cpu
        return self.calls(part, "open") * self.prices["read"].cpu + stats

    def journaled(self, part: str) -> float:
        # Each file that is made has one write in its price already.
        lines = max(0.0, self.calls(part, "write") - self.calls(part, "create"))
        return lines * self.prices["append"].cpu + self.calls(part, "sync") * self.prices["sync"].cpu

    def told(self, part: str, names: tuple[str, ...] | None = None) -> str:
        if not self.counts:
            return "not counted: no strace"
        every = sum(self.counts.by_part[part].values()) / TRACED_TASKS
        shown = names or ("create", "rename", "mkdir", "write", "open", "read", "statx")
        kept = ", ".join(f"{self.calls(part, name):.1f} {name}" for name in shown if self.calls(part, name) >= 0.05)
        return kept if names else f"{every:.0f}: {kept} …"


def floor(ours: Ours, directory: Path, probe_count: int) -> Floor:
    traced = directory / "traced"
    traced.mkdir(parents=True)
    prepared = ours.prepare(traced, make("wide", TRACED_TASKS))
    counts = syscalls.count(prepared.argv, traced, {**clean_environment(traced), **prepared.env})
    return Floor(probes.measure(directory / "probes", probe_count), counts)


def render(splits: list[Split], found: Floor) -> str:
    def typical(name: str) -> float:
        return median(getattr(split, name) for split in splits)

    price = found.prices
    whole, watcher, agents, runners = (typical(name) for name in ("whole", "watcher", "agents", "runners"))
    runner_price = price["fork"].cpu + found.made("runner") + found.looked_at("runner")
    publish, scan, journal = found.made("watcher"), found.looked_at("watcher"), found.journaled("watcher")
    system_price = price["spawn"].cpu + runner_price + publish + scan + journal

    def share(part: float) -> str:
        return f"{100 * part / whole:.0f} %"

    def row(step: str, cpu: float, reference: str, calls: str) -> list[str]:
        return [step, micro(cpu), share(cpu), reference, calls]

    estimate = "an estimate: calls × price"
    rows = [
        row("spawn: the agent's process, by its exit record", agents,
            f"start and wait of `true` {micro(price['spawn'].cpu)}, with its parent's part", found.told("agent")),
        row("runner: fork, lock, logs, start, wait, exit record, result", runners,
            f"fork {micro(price['fork'].cpu)}, its files {micro(found.made('runner'))}, "
            f"what it reads {micro(found.looked_at('runner'))}", found.told("runner")),
        row("watcher", watcher, f"{micro(typical('watcher_user'))} in its own code, "
            f"{micro(typical('watcher_system'))} in the system", found.told("watcher")),
    ]
    if found.counts:
        rows += [
            row("– publish: spec, launch record, folders", publish, estimate,
                found.told("watcher", ("create", "rename", "mkdir"))),
            row("– scan: results, exits, states", scan, estimate,
                found.told("watcher", ("open", "statx", "newfstatat", "getdents64"))),
            row("– journal: lines and sync", journal, estimate, found.told("watcher", ("write", "sync"))),
            row("– the rest: decide, JSON, hashes, wake-ups", watcher - publish - scan - journal, "what is left", ""),
        ]
    rows.append(["**a task, all of it**", f"**{micro(whole)}**", "100 %", f"**{micro(system_price)}**", ""])
    text = table(["step of a task", "CPU", "share", "the system's price for the same", "calls"], rows)
    parts = {"the agent's own process": agents, "the runner": runners, "the watcher": watcher}
    largest = max(parts, key=parts.get)
    return text + (
        f"\nThe floor is the spawn: nobody starts and reaps `true` for less than {micro(price['spawn'].cpu)} CPU, "
        f"{share(price['spawn'].cpu)} of a task. With the runner's fork, the files and the sync the system's price is "
        f"{share(system_price)}; the largest step is {largest}.\n"
    )


def price_list(price: dict[str, probes.Price]) -> str:
    words = {
        "spawn": "`posix_spawn` and wait of `/bin/true`",
        "shell": "`posix_spawn` and wait of `sh -c true`",
        "fork": "fork and wait of a small process (a shell's subshell)",
        "file": "a new file of 190 bytes",
        "publish": "the same under another name, then renamed",
        "mkdir": "a new folder",
        "read": "a small file opened, read, closed",
        "stat": "a file's state",
        "append": "a line of 190 bytes appended",
        "sync": "the same with `fdatasync`",
        "call": "a call that does nearly nothing: the probe's own loop, in every call above",
    }
    rows = [[words[name], micro(price[name].cpu), micro(price[name].wall)] for name in words]
    return table(["the system's prices, each alone", "CPU", "wall"], rows)
