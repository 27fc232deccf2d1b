"""What `wk` says with its exit code. The one place where the numbers stand."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of `wk run`, and of this package's command line."""

    SUCCESS = 0
    FAILURE = 1
    BAD_REQUEST = 2
    PARTIAL_SUCCESS = 3
    TIMEOUT = 4
    CANCELLED = 5
    AWAITING_HUMAN = 6
    BUG = 70
    DISK_ERROR = 74
    BUS_HELD = 75
    NOT_FOUND = 127
    """There is no `wk`; only the command line of this package says so, as a shell would."""
    INTERRUPTED = 130


WITH_REPORT = frozenset(
    {
        ExitCode.SUCCESS,
        ExitCode.FAILURE,
        ExitCode.PARTIAL_SUCCESS,
        ExitCode.TIMEOUT,
        ExitCode.CANCELLED,
        ExitCode.AWAITING_HUMAN,
    }
)
"""The batch was run as far as it goes, and there is a report about it."""
