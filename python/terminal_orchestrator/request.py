"""The requests, field for field, for type checkers and readers: execution requests, and assignments.

Nothing is validated here: `wk` does that, and tells every defect at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Optional, TypedDict, Union


class CommandCriterion(TypedDict, total=False):
    """A criterion that a command decides: `cmd` or `shell`, the least value, the pattern that finds it."""

    cmd: Union[str, list[str]]
    shell: str
    min: float
    value: str


Criteria = dict[str, Union[bool, float, CommandCriterion]]
"""What must hold for success, by name: that it does, the least value, or a command that decides it."""


class _Task(TypedDict):
    description: str


class Task(_Task, total=False):
    """What one agent is to do; inputs and outputs map a name to a path."""

    inputs: dict[str, str]
    outputs: dict[str, str]
    success_criteria: Criteria


class _AgentRequest(TypedDict):
    agent_name: str
    agent_path: str
    task: Task


class AgentRequest(_AgentRequest, total=False):
    """One agent: where it lives, its task, the agents it waits for, its limit in seconds."""

    dependencies: Optional[list[str]]
    timeout: float


class MergeValidation(TypedDict, total=False):
    """What must hold for the merged outputs; `command` is run on the merged tree."""

    semantic_consistency: bool
    schema_validation: bool
    command: Union[str, list[str]]


class MergeStrategy(TypedDict, total=False):
    """How the agents' outputs become one tree; `priority` says whose word counts where they disagree."""

    type: Literal["ctxpack_union", "file_merge", "report_aggregation"]
    conflict_resolution: Literal["auto", "manual_review", "fail_on_conflict"]
    validation: MergeValidation
    priority: Optional[list[str]]


class ExecutionOptions(TypedDict, total=False):
    """How the batch is run; `overall_timeout` is seconds for the whole."""

    parallel_limit: int
    retry_on_failure: bool
    max_retries: int
    checkpoint_enabled: bool
    log_level: Literal["debug", "info", "warning", "error"]
    overall_timeout: float


class _ExecutionRequest(TypedDict):
    execution_id: str
    workspace_root: str
    agents: list[AgentRequest]


class ExecutionRequest(_ExecutionRequest, total=False):
    """A batch of agents; see `wk schema` for the rules."""

    request_timestamp: str
    merge_strategy: MergeStrategy
    execution_options: ExecutionOptions


class SuccessCriteria(TypedDict, total=False):
    """What assignments ask for: files that must be there, a command that tests, further criteria."""

    required_artifacts: Optional[list[str]]
    tests_cmd: Union[str, list[str]]
    criteria: Criteria


class _AssignedTask(TypedDict):
    id: str
    agent: str
    context_path: str


class AssignedTask(_AssignedTask, total=False):
    """One task: who does it, what it is told, the tasks it waits for, its limit in seconds."""

    dependencies: Optional[list[str]]
    timeout: float
    outputs: Union[dict[str, str], list[str]]
    success_criteria: SuccessCriteria


class _Variable(TypedDict):
    name: str


class Variable(_Variable, total=False):
    """A variable; without a value it is inherited."""

    value: str


class ResourceLimits(TypedDict, total=False):
    """What each agent may use."""

    memory_mb: int
    cpu_seconds: int
    processes: int
    open_files: int
    file_size_mb: int
    log_mb: int


class _Environment(TypedDict):
    workspace_dir: str


class Environment(_Environment, total=False):
    """Where tasks work, and with what."""

    env_vars: Union[dict[str, Union[str, bool]], list[Union[str, Variable]]]
    resource_limits: ResourceLimits


class ExecutionMode(TypedDict, total=False):
    """Whether anything is started, and whether commands check the criteria."""

    dry_run: bool
    verify: bool


class _Assignments(TypedDict):
    tasks: list[AssignedTask]
    environment: Environment


class Assignments(_Assignments, total=False):
    """Tasks that share a workspace; see `wk schema` for the rules."""

    execution_id: str
    success_criteria: SuccessCriteria
    execution_mode: ExecutionMode
    dry_run: bool
    verify: bool


AnyRequest = Union[ExecutionRequest, Assignments, Mapping[str, Any]]
"""A request as a value: typed, or any mapping that reads like one."""
