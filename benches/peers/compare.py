"""The comparison itself: every workload through every tool, round by round, and what the table says of it.

Within a round the tools take turns, so that whatever else the machine does disturbs all alike. Each run gets a
new directory, and none is removed before the end: on ext4 making files is slow for minutes after many were deleted.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import steps
from measure import Meter, Spent
from ours import Ours
from report import TARGET_HEADS, micro, milli, table, target_row, times
from tools import Tool, clean_environment
from workloads import Workload


@dataclass
class Runs:
    """What one tool took for one workload, a figure for each round."""

    tasks: int
    spent: list[Spent] = field(default_factory=list)

    @property
    def wall(self) -> float:
        return median(spent.wall for spent in self.spent)

    @property
    def cpu(self) -> float:
        return median(spent.cpu for spent in self.spent)

    @property
    def wall_each(self) -> float:
        return self.wall / self.tasks

    @property
    def cpu_each(self) -> float:
        return self.cpu / self.tasks

    @property
    def spread(self) -> str:
        """From the least to the most CPU, beside the median: how far the figure can be trusted."""
        figures = [spent.cpu for spent in self.spent]
        return f"{100 * (max(figures) - min(figures)) / self.cpu:.0f} %"


class Comparison:
    def __init__(self, tools: list[Tool], workloads: list[Workload], scratch: Path, meter: Meter):
        self.tools = tools
        self.workloads = workloads
        self.scratch = scratch
        self.meter = meter
        self.missing = {tool.name: why for tool in tools if (why := tool.missing())}
        # By workload and the tool's name.
        self.runs: dict[tuple[Workload, str], Runs] = {}
        self.splits: dict[Workload, list[steps.Split]] = defaultdict(list)

    def measure(self, rounds: int) -> None:
        for number in range(1, rounds + 1):
            for workload in self.workloads:
                for tool in self.present():
                    share = tool.share_of(workload)
                    if share is not None:
                        print(f"round {number} of {rounds}: {share.title}: {tool.name}", file=sys.stderr)
                        self._run(tool, workload, share, number)

    def _run(self, tool: Tool, workload: Workload, share: Workload, number: int) -> None:
        directory = self.scratch / f"{number}-{workload.kind}-{workload.tasks}-{tool.name}"
        spent = run_once(tool, share, directory, self.meter)
        self.runs.setdefault((workload, tool.name), Runs(share.tasks)).spent.append(spent)
        if isinstance(tool, Ours) and not tool.settings:
            self.splits[workload].append(steps.split_of(spent, directory, share.tasks))

    def present(self) -> list[Tool]:
        return [tool for tool in self.tools if tool.name not in self.missing]

    def of(self, workload: Workload, name: str) -> Runs | None:
        return self.runs.get((workload, name))

    def render(self) -> str:
        parts = [
            f"#### {workload.title[0].upper()}{workload.title[1:]}\n\n{self._table(workload)}"
            for workload in self.workloads
        ]
        return "\n".join([self._targets(), *parts, self._durability()])

    def _table(self, workload: Workload) -> str:
        rows = []
        ninja, ours = self.of(workload, "ninja"), self.of(workload, "wk")
        for tool in self.tools:
            runs = self.of(workload, tool.name)
            if runs is None:
                rows.append([tool.label, *["–"] * 9, self._absence(tool, workload)])
                continue
            fewer = "" if runs.tasks == workload.tasks else "**fewer tasks**"
            rows.append([
                tool.label, str(runs.tasks), milli(runs.wall), milli(runs.cpu), micro(runs.wall_each),
                micro(runs.cpu_each), against(runs, ninja, "cpu_each"), against(runs, ours, "cpu_each"),
                against(runs, ours, "wall_each"), runs.spread, fewer,
            ])
        heads = ["tool", "tasks", "wall", "CPU", "wall a task", "CPU a task", "CPU to ninja's", "CPU to wk's",
                 "wall to wk's", "CPU's spread", ""]
        return table(heads, rows)

    def _absence(self, tool: Tool, workload: Workload) -> str:
        if tool.name in self.missing:
            return self.missing[tool.name]
        if workload.kind not in tool.kinds:
            return "has no way to say this"
        return f"too slow for so many: at most {tool.most}"

    def _durability(self) -> str:
        rows = [[tool.label, "yes" if tool.is_durable else "no", tool.durability] for tool in self.tools]
        heads = ["tool", "state for each task", "what it does"]
        return "#### What is left when everything dies\n\n" + table(heads, rows)

    def _targets(self) -> str:
        rows = []
        for workload in self.workloads:
            ours = self.of(workload, "wk")
            if ours is None:
                continue
            # The same program in both is the fairer pair; the shell's builtin is the harder one, and counts.
            for name, most, least in (("ninja", 1.0, 1.5), ("ninja-bin", None, None)):
                theirs = self.of(workload, name)
                if theirs is None:
                    continue
                label = next(tool.label for tool in self.tools if tool.name == name)
                what = f"{workload.title}: CPU a task"
                rows.append(target_row(what, ours.cpu_each, label, theirs.cpu_each, most, least))
                if workload.kind == "chain":
                    what = f"{workload.title}: wall a hop"
                    rows.append(target_row(what, ours.wall_each, label, theirs.wall_each, most and 1.5, None))
            for tool in self.tools:
                theirs = self.of(workload, tool.name)
                if tool.is_rival and theirs:
                    what = f"{workload.title}: wall a task"
                    fewer = "" if theirs.tasks == workload.tasks else f" ({theirs.tasks} tasks)"
                    rows.append(target_row(what, ours.wall_each, tool.label + fewer, theirs.wall_each, 1.0, None))
        for tool in self.tools:
            if tool.is_rival and tool.name in self.missing:
                why = f"{tool.label}: {self.missing[tool.name]}"
                rows.append(["wall a task", "–", why, "–", "≤ 1.0×", "not measured"])
        return table(TARGET_HEADS, rows)

    def render_steps(self, found: steps.Floor) -> str:
        """On the largest workload without dependencies: there the start of the program weighs least."""
        workload = max((each for each in self.splits if each.kind == "wide"), key=lambda each: each.tasks)
        ours, unsynced = self.of(workload, "wk"), self.of(workload, "wk-nosync")
        text = steps.render(self.splits[workload], found)
        if unsynced:
            text += (
                f"\nSync: with `journal_sync=false` a task takes {micro(unsynced.cpu_each)} CPU and "
                f"{micro(unsynced.wall_each)} wall instead of {micro(ours.cpu_each)} and {micro(ours.wall_each)}.\n"
            )
        text += "\n" + steps.price_list(found.prices)
        return f"#### What a task of `wk run` costs, in the run with {workload.title}\n\n{text}"


def run_once(tool: Tool, share: Workload, directory: Path, meter: Meter) -> Spent:
    """One run in a new directory, checked. Its wall time ends with its last task where the tool only polls."""
    directory.mkdir(parents=True)
    prepared = tool.prepare(directory, share)
    environment = {**clean_environment(directory), **prepared.env}
    spent = meter.run(prepared.argv, directory, environment, directory / "printed.log")
    tool.check(directory, share)
    ended_at = tool.ended_at(directory)
    if ended_at is not None:
        spent.wall = min(spent.wall, ended_at - spent.began_at)
    return spent


def against(runs: Runs, reference: Runs | None, figure: str) -> str:
    return times(getattr(runs, figure) / getattr(reference, figure)) if reference else "–"
