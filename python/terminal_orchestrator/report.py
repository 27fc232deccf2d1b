"""The reports, field for field, for type checkers and readers: on an execution request, and on assignments.

A report may say more than is named here: whoever reads one must tolerate unknown fields.
"""

from __future__ import annotations

from typing import Any, Literal, Optional, TypedDict

ExecutionStatus = Literal[
    "success", "partial_success", "failure", "timeout", "cancelled", "running", "dry_run"
]
"""How a batch ended. `dry_run` is this package's word for a batch that was only checked."""

AgentStatus = Literal["success", "failure", "timeout", "skipped", "running", "waiting"]

Evidence = Literal["claimed", "observed", "verified"]
"""How something is known: by an agent's word, by a look, or by a command."""


class AgentLogs(TypedDict, total=False):
    """Where an agent's output is kept; None where it never began."""

    stdout: Optional[str]
    stderr: Optional[str]


class _AgentError(TypedDict):
    message: str
    code: str


class AgentError(_AgentError, total=False):
    """Why an agent did not succeed; `code` says the same for programs."""

    remedy: Optional[str]


class _Observed(TypedDict, total=False):
    """What both reports tell of who did something."""

    tmux_session: Optional[str]
    start_time: Optional[str]
    end_time: Optional[str]
    duration_seconds: float
    attempts: int
    exit_code: Optional[int]
    signal: Optional[int]
    outputs_produced: dict[str, str]
    success_criteria_met: dict[str, Any]
    success_criteria_evidence: dict[str, Optional[Evidence]]
    evidence: Optional[Evidence]
    logs: AgentLogs
    metrics: dict[str, Any]
    undeclared_changes: list[str]
    unclaimed_changes: list[str]
    missing_declared: list[str]
    error: Optional[AgentError]


class _AgentReport(TypedDict):
    agent_name: str
    status: AgentStatus


class AgentReport(_AgentReport, _Observed, total=False):
    """What became of one agent."""

    task: str


# The seeds call a field `class`, which is a word of Python's.
_Class = TypedDict("_Class", {"class": Literal["file", "semantic", "dependency", "schema"]}, total=False)


class Conflict(_Class, total=False):
    """Outputs that contradict each other; `choices` are what a person can decide."""

    id: str
    path: str
    agents: list[str]
    message: str
    choices: Optional[list[str]]


class _Merged(TypedDict, total=False):
    """What both reports tell of the merge."""

    conflicts_detected: int
    conflicts_resolved: int
    merged_files: list[str]
    conflicts: list[Conflict]
    awaits_resolution: bool
    next_step: Optional[str]
    reason: Optional[str]
    receipt_sha256: Optional[str]


class MergeResult(_Merged, total=False):
    """What became of the agents' outputs."""

    status: Literal["success", "failure", "skipped"]
    merged_ctxpack: Optional[str]
    validation_passed: Optional[bool]
    conflict_report: Optional[str]
    receipt: Optional[str]


class ReportEntry(TypedDict, total=False):
    """An error or a warning; `agent` is None where the whole batch is meant."""

    agent: Optional[str]
    message: str
    severity: Literal["low", "medium", "high"]
    code: str
    remedy: str


class _Report(TypedDict):
    execution_id: str
    status: ExecutionStatus


class _Whole(_Report, total=False):
    """What both reports tell of the whole."""

    version: int
    start_timestamp: str
    end_timestamp: Optional[str]
    duration_seconds: Optional[float]
    reason: Optional[str]
    errors: list[ReportEntry]
    warnings: list[ReportEntry]
    evidence: Optional[Evidence]
    tokens_used: int
    cost_usd: Optional[float]
    undone_at: str


class _ExecutionReport(TypedDict):
    agents: list[AgentReport]


class ExecutionReport(_ExecutionReport, _Whole, total=False):
    """What became of a batch that was handed over by an execution request."""

    workspace_root: Optional[str]
    request_timestamp: Optional[str]
    log_level: Optional[str]
    merge_result: MergeResult


class _TaskReport(TypedDict):
    id: str
    agent: str
    status: Literal["success", "failed", "running", "waiting"]


class TaskReport(_TaskReport, _Observed, total=False):
    """What became of one assigned task; `outcome` is the finer word. Paths are relative to the workspace."""

    outcome: AgentStatus
    artifacts: list[str]


class AssignmentsMerge(_Merged, total=False):
    """What became of the tasks' outputs."""

    strategy: Literal["topological"]
    result: Literal["success", "failed", "skipped"]


class ValidationFinding(TypedDict, total=False):
    """What one check of the whole found."""

    name: str
    met: bool
    grade: Evidence
    saw: str
    value: Any


class AssignmentsSummary(TypedDict, total=False):
    """The whole in a few words; `completed` is true for a success in every respect."""

    completed: bool
    failed_tasks: list[str]
    validation: Literal["passed", "failed", "skipped"]
    conflicts: list[str]


class _AssignmentsReport(TypedDict):
    tasks: list[TaskReport]


class AssignmentsReport(_AssignmentsReport, _Whole, total=False):
    """What became of assignments. Whoever hands them over says so to a type checker by `cast`."""

    summary: AssignmentsSummary
    merge: AssignmentsMerge
    validation: list[ValidationFinding]
    workspace_dir: Optional[str]
