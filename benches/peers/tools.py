"""What a tool of the comparison is: how it is prepared, what it can do, what survives when it dies."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from workloads import Workload

# What `wk` has by default; everyone gets the same.
PARALLEL = 4
# One short search path for all: whoever looks for `true` finds it at once.
SEARCH_PATH = "/usr/bin:/bin"


@dataclass
class Prepared:
    """A run that only has to be started."""

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)


class WentWrong(Exception):
    """The tool ended well, but did not do what it was asked."""


class Tool:
    name: str
    label: str
    durability: str
    # Whether each task's end is on the disk before the whole run ends, so that a restart goes on from there.
    is_durable = False
    # Whether `wk` promises to take less wall time than it.
    is_rival = False
    kinds: tuple[str, ...] = ("wide", "chain", "diamond")
    # More tasks than this would take minutes and say nothing more.
    most: int | None = None

    def share_of(self, workload: Workload) -> Workload | None:
        """What it gets of a workload: all, the same shape with fewer tasks, or nothing."""
        if workload.kind not in self.kinds:
            return None
        if self.most is None or workload.tasks <= self.most:
            return workload
        # Without dependencies there is a smaller workload in the same run, with everyone in it.
        return None if workload.kind == "wide" else workload.cut_to(self.most)

    def missing(self) -> str | None:
        """Why it cannot be measured here, if it cannot."""
        raise NotImplementedError

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        raise NotImplementedError

    def check(self, directory: Path, workload: Workload) -> None:
        """Raises if what the tool leaves behind shows that tasks were not run."""

    def ended_at(self, directory: Path) -> float | None:
        """When the last task was over, for tools whose way of waiting only polls; in seconds since 1970."""
        return None


def program(name: str) -> str | None:
    return shutil.which(name, path=SEARCH_PATH) or shutil.which(name)


def clean_environment(home: Path) -> dict[str, str]:
    """The same few variables for everyone; nothing of the user's settings, nothing of a `wk` around us."""
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "USER") if name in os.environ}
    return {**kept, "PATH": SEARCH_PATH, "HOME": str(home), "TMPDIR": str(home)}


def expect_count(what: str, seen: int, expected: int) -> None:
    if seen != expected:
        raise WentWrong(f"{seen} {what} instead of {expected}")
