"""What the operating system charges for the things that a task is made of, each measured alone.

The loops are Python's, whose own share is measured as a call that does nearly nothing, and told beside them.
CPU time is this process's and its children's; a process's price has what its parent pays for it in it.
"""

import os
import resource
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Callable

PASSES = 5


@dataclass
class Price:
    """In seconds, for one."""

    cpu: float
    wall: float


def measure(directory: Path, count: int) -> dict[str, Price]:
    """All prices, by name. `directory` must be new: it gets a few thousand small files."""
    record = b'{"task":"1","attempt":1,"exit_code":0}' * 5
    place = iter(range(10**9))

    def folder() -> Path:
        made = directory / f"d{next(place)}"
        made.mkdir(parents=True)
        return made

    def files() -> Callable[[int], None]:
        inside = str(folder())
        return lambda number: write_file(f"{inside}/{number}", record)

    def published() -> Callable[[int], None]:
        inside = str(folder())

        def publish(number: int) -> None:
            write_file(f"{inside}/.tmp{number}", record)
            os.rename(f"{inside}/.tmp{number}", f"{inside}/{number}")

        return publish

    def folders() -> Callable[[int], None]:
        inside = str(folder())
        return lambda number: os.mkdir(f"{inside}/{number}")

    def looked_at(look: Callable[[str], None]) -> Callable[[int], None]:
        inside = str(folder())
        for number in range(count):
            write_file(f"{inside}/{number}", record)
        return lambda number: look(f"{inside}/{number}")

    def appended(is_synced: bool) -> Callable[[int], None]:
        file = os.open(folder() / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def append(_: int) -> None:
            os.write(file, record)
            if is_synced:
                os.fdatasync(file)

        return append

    true, shell = "/bin/true", "/bin/sh"
    rounds = [
        ("call", count * 10, lambda: lambda _: os.getppid()),
        ("spawn", count, lambda: lambda _: spawn([true])),
        ("shell", count, lambda: lambda _: spawn([shell, "-c", "true"])),
        ("file", count, files),
        ("publish", count, published),
        ("mkdir", count, folders),
        ("read", count, lambda: looked_at(read_file)),
        ("stat", count, lambda: looked_at(os.stat)),
        ("append", count, lambda: appended(False)),
        ("sync", max(20, count // 10), lambda: appended(True)),
    ]
    prices = {name: [] for name, _, _ in rounds}
    prices["fork"] = []
    for _ in range(PASSES):
        for name, times, make in rounds:
            prices[name].append(price_of(make(), times))
        prices["fork"].append(price_of_fork(count))
    return {
        name: Price(median(price.cpu for price in seen), median(price.wall for price in seen))
        for name, seen in prices.items()
    }


def spawn(argv: list[str]) -> None:
    os.waitpid(os.posix_spawn(argv[0], argv, {}), 0)


def write_file(path: str, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(file, content)
    os.close(file)


def read_file(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    os.read(file, 4096)
    os.close(file)


def price_of(operation: Callable[[int], None], times: int) -> Price:
    cpu, wall = cpu_so_far(), time.monotonic()
    for number in range(times):
        operation(number)
    return Price((cpu_so_far() - cpu) / times, (time.monotonic() - wall) / times)


def price_of_fork(count: int) -> Price:
    """A fork of a small process that ends at once: a shell's empty subshell, less the loop around it."""

    def loop(body: str) -> Price:
        script = f"i=0; while [ $i -lt {count} ]; do {body}; i=$((i+1)); done"
        cpu, wall = cpu_so_far(), time.monotonic()
        subprocess.run(["/bin/sh", "-c", script], check=True)
        return Price((cpu_so_far() - cpu) / count, (time.monotonic() - wall) / count)

    full, empty = loop("(:)"), loop(":")
    return Price(full.cpu - empty.cpu, full.wall - empty.wall)


def cpu_so_far() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
