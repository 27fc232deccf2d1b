"""The peers that come with a system: xargs, make, ninja, GNU parallel, task-spooler, nq, pueue."""

import datetime
import json
import os
from pathlib import Path

from tools import PARALLEL, Prepared, Tool, expect_count, program
from workloads import Workload


class SystemTool(Tool):
    command: str
    package: str

    def missing(self) -> str | None:
        return None if program(self.command) else f"not installed (Debian: {self.package})"


class Xargs(SystemTool):
    name, label = "xargs", "`xargs -P`"
    command, package = "xargs", "findutils"
    kinds = ("wide",)
    durability = "none"

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        write_numbers(directory / "numbers", workload.tasks)
        return Prepared([program("xargs"), "-a", "numbers", "-n", "1", "-P", str(PARALLEL), "true"])


class Make(SystemTool):
    name, label = "make", "`make -j` (starts `true` without a shell)"
    command, package = "make", "make"
    durability = "none: runs again by the files' times"

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        names = [f"t{number}" for number in range(workload.tasks)]
        lines = [f".PHONY: all {' '.join(names)}", f"all: {' '.join(names)}"]
        for name, dependencies in zip(names, workload.dependencies):
            if dependencies:
                lines.append(f"{name}: {' '.join(names[number] for number in dependencies)}")
        lines.append(f"{' '.join(names)}: ; @true")
        (directory / "Makefile").write_text("\n".join(lines) + "\n")
        # Without built-in rules it need not look for a way to make each name.
        return Prepared([program("make"), f"-j{PARALLEL}", "-s", "-r", "-R", "all"])


class Ninja(SystemTool):
    command, package = "ninja", "ninja-build"
    durability = "none: a line in `.ninja_log` after each task, not synced; runs again by the files' times"

    def __init__(self, line: str):
        self.line = line
        is_builtin = line == "true"
        self.name = "ninja" if is_builtin else "ninja-bin"
        self.label = "`ninja`, `sh -c true` (the shell's builtin)" if is_builtin else f"`ninja`, `sh -c {line}` (two processes)"

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        lines = ["rule task", f"  command = {self.line}"]
        for number, dependencies in enumerate(workload.dependencies):
            inputs = "".join(f" t{dependency}" for dependency in dependencies)
            lines.append(f"build t{number}: task{inputs}")
        (directory / "build.ninja").write_text("\n".join(lines) + "\n")
        return Prepared([program("ninja"), f"-j{PARALLEL}", "--quiet"])

    def check(self, directory: Path, workload: Workload) -> None:
        lines = (directory / ".ninja_log").read_text().splitlines()
        expect_count("lines in .ninja_log", sum(not line.startswith("#") for line in lines), workload.tasks)


class Parallel(SystemTool):
    name, label = "parallel", "GNU `parallel --joblog`"
    command, package = "parallel", "parallel"
    kinds = ("wide",)
    durability = "a line in the job log after each task, not synced; `--resume` goes on from it"
    most = 1000

    def missing(self) -> str | None:
        # moreutils has another program of this name, without a job log.
        found = program("parallel")
        is_gnu = found is not None and b"GNU" in Path(found).resolve().read_bytes()[:20000]
        return None if is_gnu else super().missing() or "another `parallel` than GNU's"

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        write_numbers(directory / "numbers", workload.tasks)
        argv = [program("parallel"), "--will-cite", f"-j{PARALLEL}", "--joblog", "jobs", "-a", "numbers", "true", "{}"]
        # It makes and deletes two files for each task, and on ext4 that makes new files dear for who comes next.
        memory = Path("/dev/shm")
        return Prepared(argv, {"TMPDIR": str(memory)} if os.access(memory, os.W_OK) else {})

    def check(self, directory: Path, workload: Workload) -> None:
        expect_count("lines in the job log", len((directory / "jobs").read_text().splitlines()) - 1, workload.tasks)


class TaskSpooler(SystemTool):
    name, label = "tsp", "task-spooler (`tsp`)"
    command, package = "tsp", "task-spooler"
    # A job can wait for one other, not for many.
    kinds = ("wide", "chain")
    durability = "none: the queue is in the server's memory"
    most = 1000

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        add = "tsp -n -d true" if workload.kind == "chain" else "tsp -n true"
        script = f"""
            tsp -n true >/dev/null
            i=1
            while [ $i -lt {workload.tasks} ]; do {add} >/dev/null; i=$((i+1)); done
            i={max(0, workload.tasks - PARALLEL)}
            while [ $i -lt {workload.tasks} ]; do tsp -w $i >/dev/null || exit; i=$((i+1)); done
            tsp -l | grep -c 'finished  *[^ ]*  *0 ' >finished
            tsp -K
        """
        most_kept = str(workload.tasks + 1)
        environment = {
            "TS_SOCKET": str(directory / "socket"),
            "TS_SLOTS": str(PARALLEL),
            "TS_MAXFINISHED": most_kept,
            "TS_MAXCONN": most_kept,
        }
        return Prepared(["/bin/sh", "-c", script], environment)

    def check(self, directory: Path, workload: Workload) -> None:
        expect_count("finished jobs", int((directory / "finished").read_text()), workload.tasks)


class Nq(SystemTool):
    name, label = "nq", f"`nq`, {PARALLEL} queues where there is no order"
    command, package = "nq", "nq"
    kinds = ("wide", "chain")
    is_durable = is_rival = True
    durability = "a file for each job with output and exit status; `fsync` of its folder when queued, none at its end"
    # Each job looks at every older one, so its price grows with their number.
    most = 1000

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        queues = 1 if workload.kind == "chain" else PARALLEL
        script = f"""
            i=0
            while [ $i -lt {workload.tasks} ]; do NQDIR=q$((i % {queues})) nq -q true; i=$((i+1)); done
            i=0
            while [ $i -lt {queues} ]; do NQDIR=q$i nq -w; i=$((i+1)); done
        """
        return Prepared(["/bin/sh", "-c", script])

    def check(self, directory: Path, workload: Workload) -> None:
        logs = [log.read_text() for log in directory.glob("q*/,*")]
        expect_count("finished jobs", sum("exited with status 0" in log for log in logs), workload.tasks)


class Pueue(Tool):
    name, label = "pueue", "`pueue`"
    is_durable = is_rival = True
    durability = "the whole state in one JSON file, written anew at every change, not synced; a log for each task"
    # Each change writes the whole state, and the daemon looks for work every 0.3 s.
    most = 200
    # A hop takes as long as the daemon sleeps, whatever their number.
    most_hops = 20

    def __init__(self, tools: Path):
        self.tools = tools

    def share_of(self, workload: Workload) -> Workload | None:
        return workload.cut_to(self.most_hops) if workload.kind == "chain" else super().share_of(workload)

    def missing(self) -> str | None:
        return None if self._program("pueued") else "not available here (crates.io: `cargo install pueue`)"

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        client = f"{self._program('pueue')} -c pueue.yml"
        lines = [f"{self._program('pueued')} -d -c pueue.yml >daemon.log 2>&1 || exit"]
        lines += [f"until {client} status >/dev/null 2>&1; do sleep 0.01; done", f"{client} parallel {PARALLEL}"]
        for dependencies in workload.dependencies:
            after = f"--after {' '.join(map(str, dependencies))} " if dependencies else ""
            lines.append(f"{client} add {after}-- true")
        lines += [f"{client} wait --quiet", f"{client} status --json >status.json", f"{client} shutdown"]
        (directory / "pueue.yml").write_text(
            f"shared:\n  pueue_directory: {directory}/state\n  runtime_directory: {directory}/run\n"
            f"  use_unix_socket: true\n  unix_socket_path: {directory}/socket\nclient: {{}}\ndaemon: {{}}\n"
        )
        for made in ("state", "run"):
            (directory / made).mkdir()
        (directory / "run.sh").write_text("\n".join(lines) + "\n")
        return Prepared(["/bin/sh", "run.sh"])

    def check(self, directory: Path, workload: Workload) -> None:
        expect_count("successful tasks", len(self._ends(directory)), workload.tasks)

    def ended_at(self, directory: Path) -> float | None:
        return max(self._ends(directory), default=None)

    def _ends(self, directory: Path) -> list[float]:
        tasks = json.loads((directory / "status.json").read_text())["tasks"].values()
        done = [task["status"]["Done"] for task in tasks if "Done" in task["status"]]
        # It writes nanoseconds; Python reads at most microseconds.
        stamps = [end["end"] for end in done if end["result"] == "Success"]
        return [datetime.datetime.fromisoformat(stamp[:26] + stamp[29:]).timestamp() for stamp in stamps]

    def _program(self, name: str) -> str | None:
        installed = self.tools / "pueue/bin" / name
        return str(installed) if installed.exists() else program(name)


def write_numbers(file: Path, count: int) -> None:
    file.write_text("".join(f"{number}\n" for number in range(count)))
