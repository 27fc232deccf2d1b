"""Counts what the parts of a `wk run` ask of the system, task by task, with strace.

Only counts are used: under strace times mean nothing, but the calls are the same. The parts are told apart by
who started whom: threads of the first process are the watcher, what runs `true` is an agent, the rest are the
nursery and its runners.
"""

import re
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

LINE = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)")
CHILD = re.compile(r"= (\d+)$")


@dataclass
class Counts:
    """For each part (`watcher`, `runner`, `agent`): how many calls of each name."""

    by_part: dict[str, Counter]


def count(argv: list[str], cwd: Path, env: dict[str, str]) -> Counts | None:
    """`None` where strace is not there or may not trace."""
    trace = cwd / "strace.out"
    try:
        subprocess.run(
            ["strace", "-f", "-qq", "-s", "16", "-o", str(trace), *argv],
            cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return read(trace.read_text(errors="replace").splitlines())


def read(lines: list[str]) -> Counts:
    calls = defaultdict(Counter)
    threads, pending, agents = set(), {}, set()
    first = None
    for line in lines:
        seen = LINE.match(line)
        if not seen:
            continue
        pid, name = int(seen.group(1)), seen.group(2)
        first = pid if first is None else first
        if "resumed>" in line:
            if name.startswith("clone") and pending.pop(pid, False):
                note_thread(line, threads)
            continue
        calls[pid][kind(name, line)] += 1
        if name.startswith("clone") and "CLONE_THREAD" in line:
            if "<unfinished" in line:
                pending[pid] = True
            else:
                note_thread(line, threads)
        if name == "execve" and '"true"' in line:
            agents.add(pid)
    by_part = {"watcher": Counter(), "runner": Counter(), "agent": Counter()}
    for pid, counter in calls.items():
        part = "watcher" if pid == first or pid in threads else "agent" if pid in agents else "runner"
        by_part[part] += counter
    return Counts(by_part)


def note_thread(line: str, threads: set[int]) -> None:
    child = CHILD.search(line)
    if child:
        threads.add(int(child.group(1)))


def kind(name: str, line: str) -> str:
    """Calls of one sense under one name."""
    if name in ("open", "openat", "openat2", "creat"):
        return "create" if "O_CREAT" in line or name == "creat" else "open"
    if name.startswith("rename"):
        return "rename"
    if name.startswith("mkdir"):
        return "mkdir"
    if name.startswith("unlink"):
        return "unlink"
    if name in ("write", "pwrite64", "writev"):
        return "write"
    if name in ("fsync", "fdatasync"):
        return "sync"
    return name
