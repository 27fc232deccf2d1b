"""What the end of `wk run` means: a report, or an exception. Starts and stops nothing."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from typing import NamedTuple, Optional, cast

from terminal_orchestrator.binary import StrPath
from terminal_orchestrator.errors import (
    BusHeld,
    DiskError,
    ExecutionInterrupted,
    InvalidRequest,
    WatchkeeperError,
    explain_defects,
)
from terminal_orchestrator.events import Defect
from terminal_orchestrator.exit_code import ExitCode
from terminal_orchestrator.report import ExecutionReport


class Ending(NamedTuple):
    """What is known of `wk` once it has ended."""

    exit_code: int
    stderr: str
    defects: Optional[list[Defect]]
    """All defects, if the request was refused."""


class ReportFile:
    """Where `wk` is told to put the report. What lay there before is never taken for it."""

    def __init__(self, path: StrPath) -> None:
        self.path = os.path.abspath(os.fspath(path))
        if os.path.isdir(self.path):
            raise IsADirectoryError(f"the report cannot be written to {self.path}: it is a directory")
        directory = os.path.dirname(self.path)
        if not os.path.isdir(directory):
            # Told now, and not when the work is done and cannot be reported.
            raise FileNotFoundError(f"the report cannot be written to {self.path}: there is no {directory}")
        self._before = self._identity()

    def read(self) -> Optional[ExecutionReport]:
        """The report, or None if none was written since."""
        identity = self._identity()
        if identity is None or identity == self._before:
            return None
        with open(self.path, "rb") as file:
            text = file.read().decode("utf-8", errors="replace")
        try:
            report = json.loads(text)
        except ValueError as error:
            raise WatchkeeperError(f"the report {self.path} is no JSON: {error}") from error
        if not isinstance(report, dict):
            raise WatchkeeperError(f"the report {self.path} is no JSON object")
        return cast(ExecutionReport, report)

    def write(self, report: ExecutionReport) -> None:
        """Puts a report there that `wk` does not write, as it would: as a whole, for everybody to read."""
        descriptor, staged = tempfile.mkstemp(prefix=".tmp-", dir=os.path.dirname(self.path))
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(report, file, indent=2)
                file.write("\n")
                os.fchmod(file.fileno(), 0o644)
            os.replace(staged, self.path)
        except BaseException:
            os.unlink(staged)
            raise

    def _identity(self) -> Optional[tuple[int, ...]]:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def error_of(ending: Ending) -> WatchkeeperError:
    """The exception for an end without a report."""
    code = ending.exit_code
    said = _said(ending.stderr)
    if ending.defects is not None:
        message = f"the request was refused\n{explain_defects(ending.defects)}"
        return InvalidRequest(message, defects=ending.defects, exit_code=code, stderr=ending.stderr)
    if code == ExitCode.BAD_REQUEST:
        message = said or "wk refused the request, or an option"
        return InvalidRequest(message, exit_code=code, stderr=ending.stderr)
    if code == ExitCode.BUS_HELD:
        message = said or "another watcher holds the bus"
        return BusHeld(message, exit_code=code, stderr=ending.stderr)
    if code == ExitCode.DISK_ERROR:
        message = said or "wk could not read or write what it must"
        return DiskError(message, exit_code=code, stderr=ending.stderr)
    if code == ExitCode.INTERRUPTED:
        message = said or "wk was told to stop; the batch is kept"
        return ExecutionInterrupted(message, exit_code=code, stderr=ending.stderr)
    message = f"wk {_way_of_ending(code)}, without a report"
    return WatchkeeperError(f"{message}\n{said}" if said else message, exit_code=code, stderr=ending.stderr)


def _way_of_ending(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"


def _said(stderr: str) -> str:
    """What `wk` says of an error, or, where it says nothing by that name, all that is kept."""
    lines = stderr.splitlines()
    telling = [line for line in lines if line.startswith(("error:", "hint:"))]
    return "\n".join(telling or lines)
