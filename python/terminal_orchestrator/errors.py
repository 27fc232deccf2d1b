"""What can go wrong, as the exceptions that a Python user expects.

A batch that failed is none of these: its report says so. `check=True` makes it `ExecutionFailed`.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any, Optional, cast

from terminal_orchestrator.events import Defect
from terminal_orchestrator.report import ExecutionReport


class WatchkeeperError(Exception):
    """The common base. `exit_code` is that of `wk` where it ran, `stderr` its last lines."""

    def __init__(self, message: str, *, exit_code: Optional[int] = None, stderr: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.stderr = stderr

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructors take more than `args`, and exceptions travel between processes by pickle.
        return _restored, (type(self), self.args, self.__dict__.copy())


def _restored(
    kind: type[WatchkeeperError], args: tuple[Any, ...], fields: dict[str, Any]
) -> WatchkeeperError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class WatchkeeperNotFound(WatchkeeperError, FileNotFoundError):  # noqa: N818 - named like FileNotFoundError's kin
    """There is no `wk` to run; the message says how to get it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = errno.ENOENT

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message,)


class InvalidRequest(WatchkeeperError, ValueError):  # noqa: N818
    """The request, or an option, was refused, and nothing was started. `defects` lists all that is wrong."""

    def __init__(self, message: str, *, defects: Sequence[Defect] = (), **told: Any) -> None:
        super().__init__(message, **told)
        self.defects = list(defects)


class ExecutionFailed(WatchkeeperError, RuntimeError):  # noqa: N818
    """With `check=True`: the batch did not end with `success`. `report` says why."""

    def __init__(self, report: ExecutionReport, *, exit_code: Optional[int] = None) -> None:
        super().__init__(_summary(report), exit_code=exit_code)
        self.report = report


class ExecutionTimeout(WatchkeeperError, TimeoutError):  # noqa: N818
    """The caller's `timeout` has passed, and the batch was asked to end. `report` is there if it did."""

    def __init__(
        self,
        message: str,
        *,
        timeout: float,
        batch_id: Optional[str] = None,
        report: Optional[ExecutionReport] = None,
        **told: Any,
    ) -> None:
        super().__init__(message, **told)
        self.timeout = timeout
        self.batch_id = batch_id
        self.report = report


class ExecutionInterrupted(WatchkeeperError):  # noqa: N818
    """`wk` was told to stop by somebody else; the batch is kept as it is."""


class BusHeld(WatchkeeperError):  # noqa: N818
    """Another watcher holds the bus, and what was asked for needs a bus of its own."""


class DiskError(WatchkeeperError, OSError):
    """`wk` could not read or write what it must."""


def _summary(report: ExecutionReport) -> str:
    fields = cast("dict[str, Any]", report)
    # Assignments list tasks, by their ids.
    listed = fields.get("agents") or fields.get("tasks") or []
    others = [one for one in listed if one.get("status") != "success"]
    named = ", ".join(f"{one.get('agent_name', one.get('id'))} ({one.get('status')})" for one in others)
    line = f"execution {report.get('execution_id')} ended with {report.get('status')}"
    messages = "".join(f"\n  {entry.get('message')}" for entry in report.get("errors", []))
    return (f"{line}: {named}" if named else line) + messages


def explain_defects(defects: Sequence[Defect]) -> str:
    """All defects, a line each, with what to do below."""
    lines = []
    for defect in defects:
        place = f"{defect['place']}: " if defect.get("place") else ""
        lines.append(f"  {place}{defect.get('message') or defect.get('rule') or defect}")
        if defect.get("remedy"):
            lines.append(f"    {defect['remedy']}")
    return "\n".join(lines)
