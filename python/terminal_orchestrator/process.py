"""A child process whose two pipes are drained while it runs, and that leaves no zombie.

Knows nothing of `wk`: lines come out, signals go in. Whoever inherits a pipe from the child and outlives it
(an agent's runner, a tmux server) cannot make the caller wait.
"""

from __future__ import annotations

import os
import queue
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Callable, NamedTuple, Optional, Union

READ_BYTES = 65_536
"""What one look at a pipe reads at most: the usual size of a pipe."""

LINE_BYTES_MAX = 8 * 1024 * 1024
"""A longer line is left out, so that a child that never ends its line cannot fill the memory."""

LAST_BYTES_MAX = 1024 * 1024
"""A pipe's largest usual size: nothing beyond it can have been written by a child that has ended."""


class Line(NamedTuple):
    """One line that the child wrote, without its end. Bytes that are no UTF-8 are replaced."""

    is_error_output: bool
    text: str


class Ended(NamedTuple):
    """The child is gone and reaped, and all that it wrote has been told."""

    exit_code: int


Told = Union[Line, Ended]


class Child:
    """A started program. `next` tells what it says, until `Ended`."""

    def __init__(self, command: Sequence[str]) -> None:
        # No input: a program that asks would otherwise wait for the caller's terminal.
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self._told: queue.SimpleQueue[Told] = queue.SimpleQueue()
        self.pid = self._process.pid
        # The thread must not hold `self`: an abandoned child is noticed when nobody refers to it.
        threading.Thread(
            target=_drain, args=(self._process, self._told.put), name=f"drain {self.pid}", daemon=True
        ).start()

    def next(self, until: Optional[float] = None) -> Optional[Told]:
        """What the child says next, or None when `until` (of the monotonic clock) has passed."""
        if until is None:
            return self._told.get()
        left = until - time.monotonic()
        if left <= 0:
            return None
        try:
            return self._told.get(timeout=min(left, threading.TIMEOUT_MAX))
        except queue.Empty:
            return None

    def has_ended(self) -> bool:
        """Whether the child is gone; what it said may not have been told yet."""
        return self._process.returncode is not None

    def interrupt(self) -> None:
        """Sends what Ctrl-C sends."""
        self._process.send_signal(signal.SIGINT)

    def terminate(self) -> None:
        """Asks the child to end."""
        self._process.terminate()

    def kill(self) -> None:
        """Ends the child."""
        self._process.kill()


class Lines:
    """Cuts what a pipe delivers into lines."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> None:
        """Takes what was read."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._add(part)
            self.finish()
        self._add(rest)

    def finish(self) -> None:
        """Tells the line as it is now; at the end of all, one without a line end."""
        parts, length = self._parts, self._length
        self._parts, self._length = [], 0
        if length > LINE_BYTES_MAX:
            self._tell(f"(a line of {length} bytes was left out)")
        elif length > 0:
            self._tell(b"".join(parts).decode("utf-8", errors="replace").rstrip("\r"))

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > LINE_BYTES_MAX:
            self._parts = []
        elif part:
            self._parts.append(part)


def _drain(process: subprocess.Popen[bytes], tell: Callable[[Told], None]) -> None:
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - both are pipes
    output, errors = process.stdout.fileno(), process.stderr.fileno()
    lines = {
        output: Lines(lambda text: tell(Line(is_error_output=False, text=text))),
        errors: Lines(lambda text: tell(Line(is_error_output=True, text=text))),
    }
    try:
        with process.stdout, process.stderr:
            _read_until_exit(process, lines)
            for pipe, its_lines in lines.items():
                _read_what_is_left(pipe, its_lines)
    finally:
        # Whatever happened here: a caller who waits for the end must hear of it.
        tell(Ended(process.wait()))


def _read_until_exit(process: subprocess.Popen[bytes], lines: dict[int, Lines]) -> None:
    exited, announce_exit = os.pipe()
    threading.Thread(
        target=_announce_exit, args=(process, announce_exit), name=f"wait {process.pid}", daemon=True
    ).start()
    try:
        with selectors.DefaultSelector() as selector:
            for descriptor in (exited, *lines):
                selector.register(descriptor, selectors.EVENT_READ)
            while True:
                ready = [key.fd for key, _ in selector.select()]
                if exited in ready:
                    return
                for pipe in ready:
                    chunk = os.read(pipe, READ_BYTES)
                    lines[pipe].feed(chunk)
                    if not chunk:
                        selector.unregister(pipe)
    finally:
        os.close(exited)


def _announce_exit(process: subprocess.Popen[bytes], announce_exit: int) -> None:
    process.wait()
    # A byte, because a copy of the pipe in a forked process would keep its end from being seen.
    os.write(announce_exit, b"x")
    os.close(announce_exit)


def _read_what_is_left(pipe: int, lines: Lines) -> None:
    """Reads what is in the pipe, not to its end: another process may hold it open for days."""
    os.set_blocking(pipe, False)
    left = LAST_BYTES_MAX
    while left > 0:
        try:
            chunk = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            break
        if not chunk:
            break
        lines.feed(chunk)
        left -= len(chunk)
    lines.finish()
