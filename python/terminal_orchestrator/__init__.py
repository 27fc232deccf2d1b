"""Watchkeeper's terminal orchestrator for Python: a request goes in, a report comes out.

The work is done by the program `wk`. This package finds it, runs it, hands on its progress, and turns its
end into a report or into the exception that fits. It needs nothing but the standard library.
"""

from terminal_orchestrator.atools import iterate_parallel, orchestrate_parallel
from terminal_orchestrator.errors import (
    BusHeld,
    DiskError,
    ExecutionFailed,
    ExecutionInterrupted,
    ExecutionTimeout,
    InvalidRequest,
    WatchkeeperError,
    WatchkeeperNotFound,
)
from terminal_orchestrator.events import Defect, ProgressEvent
from terminal_orchestrator.execution import ParallelExecution
from terminal_orchestrator.exit_code import ExitCode
from terminal_orchestrator.report import AssignmentsReport, ExecutionReport
from terminal_orchestrator.request import Assignments, ExecutionRequest

__all__ = [
    "Assignments",
    "AssignmentsReport",
    "BusHeld",
    "Defect",
    "DiskError",
    "ExecutionFailed",
    "ExecutionInterrupted",
    "ExecutionReport",
    "ExecutionRequest",
    "ExecutionTimeout",
    "ExitCode",
    "InvalidRequest",
    "ParallelExecution",
    "ProgressEvent",
    "WatchkeeperError",
    "WatchkeeperNotFound",
    "iterate_parallel",
    "orchestrate_parallel",
]
