"""What `wk run --progress json` tells line by line, as values.

Reading never fails: a line that is no event is a note, and an event that this version does not know is
handed on as it is. A newer `wk` may say more.
"""

from __future__ import annotations

import json
from typing import Any, Literal, Optional, TypedDict, Union, cast


class Defect(TypedDict, total=False):
    """Something wrong with a request: the rule, the place, what is wrong and what to do."""

    rule: str
    place: str
    message: str
    remedy: str


class AcceptedEvent(TypedDict):
    """The request is a batch now, and survives any crash."""

    event: Literal["accepted"]
    batch_id: str
    execution_id: str
    workspace_root: str


class _TaskEvent(TypedDict):
    event: Literal["task"]
    task: str
    status: Literal["waiting", "running", "success", "failure", "timeout", "skipped"]


class TaskEvent(_TaskEvent, total=False):
    """A task changed. `progress` is between 0 and 1 where it is known."""

    agent: str
    attempt: int
    progress: Optional[float]
    message: Optional[str]


class StageEvent(TypedDict):
    """The batch entered a stage: `checkpoint`, `agents`, `merge` or `report`."""

    event: Literal["stage"]
    name: str


class FinishedEvent(TypedDict):
    """The batch has ended; `report` is the path of its report."""

    event: Literal["finished"]
    status: str
    report: str


class DryRunEvent(TypedDict):
    """The request is fine, and nothing was started, because the caller or the request says so.

    `text` is what would happen, for people; `check` the same as `wk check --json` tells it.
    """

    event: Literal["dry_run"]
    execution_id: Optional[str]
    workspace_root: Optional[str]
    text: str
    check: dict[str, Any]


class RefusedEvent(TypedDict):
    """The request is not one; nothing was started."""

    event: Literal["refused"]
    defects: list[Defect]


class NoteEvent(TypedDict):
    """A line for people: a warning, an error or a hint, as `wk` wrote it. Made by this package."""

    event: Literal["note"]
    text: str


ProgressEvent = Union[
    AcceptedEvent, TaskEvent, StageEvent, FinishedEvent, DryRunEvent, RefusedEvent, NoteEvent
]
"""Told apart by `event["event"]`; a word that is none of these is possible too."""


def read_event(line: str) -> ProgressEvent:
    """Reads one line of progress."""
    try:
        value = json.loads(line)
    # A line nested without end exhausts the parser's stack.
    except (ValueError, RecursionError):
        return note(line)
    if isinstance(value, dict) and isinstance(value.get("event"), str):
        return cast(ProgressEvent, value)
    return note(line)


def note(text: str) -> NoteEvent:
    """Makes a line for people an event."""
    return {"event": "note", "text": text}


def describe(event: ProgressEvent) -> Optional[str]:
    """One line for people, or nothing where they need none.

    Reads with care: fields of an event may be absent, or of another type, in a `wk` that is not ours.
    """
    fields = cast("dict[str, Any]", event)
    kind = fields["event"]
    if kind in ("note", "dry_run"):
        return str(fields.get("text", "")).rstrip("\n")
    if kind == "accepted":
        return f"batch {fields.get('batch_id')} is accepted"
    if kind == "stage":
        return f"stage: {fields.get('name')}"
    if kind == "task":
        return _describe_task(fields)
    if kind == "finished":
        return f"the batch has ended: {fields.get('status')}"
    return None


def _describe_task(fields: dict[str, Any]) -> str:
    line = f"{fields.get('task')}: {fields.get('status')}"
    attempt = fields.get("attempt")
    if isinstance(attempt, int) and attempt > 1:
        line += f", attempt {attempt}"
    progress = fields.get("progress")
    if isinstance(progress, (int, float)):
        line += f", {progress:.0%}"
    message = fields.get("message")
    return f"{line}: {message}" if message else line
