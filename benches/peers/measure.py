"""Runs one program and tells its wall time and the CPU time of everything that it started.

Also processes that nobody waits for count: daemons, agents whose parent is gone. In a control group of its own
where the system lets us make one; else as a subreaper, which inherits the orphans and their account.
Knows nothing of tools and tasks.
"""

import ctypes
import os
import resource
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

# Nothing here may hang a benchmark for longer than this: the slowest honest run takes about a minute.
LONGEST_RUN_SECONDS = 600
# What a daemon may take to end after it was told to.
LONGEST_FAREWELL_SECONDS = 10
PR_SET_CHILD_SUBREAPER = 36
TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


class RunFailed(Exception):
    """The program did not end well; says what it printed."""


@dataclass
class Spent:
    """What one run took, in seconds."""

    wall: float
    cpu: float
    # Of the started process itself, all threads, without its children. Read off its last state, in clock ticks.
    own_user: float
    own_system: float
    # Seconds since 1970.
    began_at: float


class Group:
    """A control group with its own account of CPU time."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.is_first = (directory / "cpuacct.usage").exists()

    @staticmethod
    def make() -> "Group | None":
        """A new group in the first hierarchy that counts and lets us in; `None` where there is none."""
        name = f"wk-bench-{os.getpid()}"
        for parent in _parents():
            directory = parent / name
            try:
                directory.mkdir()
            except OSError:
                continue
            group = Group(directory)
            if group._counts():
                return group
            directory.rmdir()
        return None

    def _counts(self) -> bool:
        try:
            before = self.cpu()
            subprocess.run(["sh", "-c", ":"], check=True, preexec_fn=self.enter)
            return self.cpu() > before
        except (OSError, ValueError, subprocess.SubprocessError):
            return False

    def enter(self) -> None:
        (self.directory / "cgroup.procs").write_text(str(os.getpid()))

    def cpu(self) -> float:
        if self.is_first:
            return int((self.directory / "cpuacct.usage").read_text()) / 1e9
        for line in (self.directory / "cpu.stat").read_text().splitlines():
            key, value = line.split()
            if key == "usage_usec":
                return int(value) / 1e6
        raise ValueError("no usage_usec")

    def members(self) -> list[int]:
        return [int(line) for line in (self.directory / "cgroup.procs").read_text().split()]

    def remove(self) -> None:
        """Ends whoever is left in it: after an interrupted run that may be a daemon."""
        limit = time.monotonic() + LONGEST_FAREWELL_SECONDS
        while self.members() and time.monotonic() < limit:
            _kill(self.members())
            time.sleep(0.002)
        self.directory.rmdir()


def _parents() -> list[Path]:
    """Where a group could be made: below our own group of each hierarchy, then below its root."""
    root = Path("/sys/fs/cgroup")
    found = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, ours = line.split(":", 2)
        if "cpuacct" in controllers.split(","):
            mounts = [root / "cpuacct", root / "cpu,cpuacct"]
        elif controllers == "":
            mounts = [root, root / "unified"]
        else:
            continue
        found += [place for mount in mounts for place in (mount / ours.lstrip("/"), mount)]
    # The first version counts in nanoseconds, so it goes first.
    found.sort(key=lambda place: "cpuacct" not in str(place))
    return [place for place in dict.fromkeys(found) if place.is_dir()]


class Meter:
    """Measures runs, one after the other."""

    def __init__(self, may_group: bool = True) -> None:
        self.group = Group.make() if may_group else None
        if self.group is None:
            libc = ctypes.CDLL(None, use_errno=True)
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def how(self) -> str:
        if self.group is None:
            return "the account of all reaped children, orphans included (no control group could be made)"
        version = "v1, cpuacct.usage" if self.group.is_first else "v2, cpu.stat"
        return (
            f"a control group for everything that a run starts ({version}); the kernel's own threads, such as the "
            "file system's, are in nobody's account"
        )

    def run(self, argv: list[str], cwd: Path, env: dict[str, str], output: Path) -> Spent:
        """Runs it to its end and until everything it started is gone. `output` gets what it prints."""
        before = self._cpu()
        with open(output, "wb") as sink:
            enter = self.group.enter if self.group else None
            began_at, began = time.time(), time.monotonic()
            process = subprocess.Popen(
                argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, preexec_fn=enter
            )
        try:
            _await_exit(process.pid)
        except RunFailed:
            process.kill()
            process.wait()
            raise
        wall = time.monotonic() - began
        own_user, own_system = _own_cpu(process.pid)
        code = process.wait()
        self._await_farewell(argv[0])
        spent = Spent(wall, self._cpu() - before, own_user, own_system, began_at)
        if code != 0:
            said = output.read_text(errors="replace")[-2000:]
            raise RunFailed(f"{' '.join(argv)[:200]} ended with {code} in {cwd}:\n{said}")
        return spent

    def close(self) -> None:
        if self.group:
            self.group.remove()

    def _cpu(self) -> float:
        if self.group:
            return self.group.cpu()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    def _await_farewell(self, name: str) -> None:
        limit = time.monotonic() + LONGEST_FAREWELL_SECONDS
        while self._left_over():
            if time.monotonic() > limit:
                left = self._left_over()
                _kill(left)
                raise RunFailed(f"{name} left {len(left)} processes behind: {left[:5]}")
            time.sleep(0.002)

    def _left_over(self) -> list[int]:
        if self.group:
            return self.group.members()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return []
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def _kill(processes: list[int]) -> None:
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _await_exit(pid: int) -> None:
    """Returns when it has ended, without reaping it: a process that is not reaped can still be asked what it took."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(LONGEST_RUN_SECONDS * 1000):
            raise RunFailed(f"process {pid} did not end within {LONGEST_RUN_SECONDS} s")
    finally:
        os.close(descriptor)


def _own_cpu(pid: int) -> tuple[float, float]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user_ticks, system_ticks = int(fields[11]), int(fields[12])
    return user_ticks * TICK_SECONDS, system_ticks * TICK_SECONDS
