"""The command line: arguments in, a report file and an exit code out. No rules live here."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Optional

from terminal_orchestrator.errors import ExecutionTimeout, WatchkeeperError, WatchkeeperNotFound
from terminal_orchestrator.events import ProgressEvent, describe
from terminal_orchestrator.execution import ParallelExecution
from terminal_orchestrator.exit_code import ExitCode

EXAMPLES = """\
examples:
  orchestrate_parallel.py --request execution_request.json --output execution_report.json
  orchestrate_parallel.py --request execution_request.json --progress --timeout 3600
  orchestrate_parallel.py --request execution_request.json --dry-run

exit codes: 0 success, 1 failure, 2 bad request or usage, 3 partial success, 4 timeout, 5 cancelled,
6 awaiting a human, 70 bug, 74 disk error, 75 the bus is held, 127 there is no wk, 130 interrupted
"""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command line and returns its exit code."""
    options = _parser().parse_args(arguments)
    progress = Progress(is_wanted=options.progress)
    try:
        return _run(options, progress)
    except KeyboardInterrupt as interruption:
        notes = getattr(interruption, "__notes__", None) or interruption.args
        _tell("interrupted", *notes)
        return ExitCode.INTERRUPTED
    except WatchkeeperNotFound as error:
        _tell(f"error: {error}")
        return ExitCode.NOT_FOUND
    except ExecutionTimeout as error:
        _tell(f"error: {error}")
        return ExitCode.TIMEOUT
    except WatchkeeperError as error:
        # What wk says of an error was told as it came.
        if not any(line.startswith("error:") for line in error.stderr.splitlines()):
            _tell(f"error: {error}")
        # wk may have ended well and its report be lost: that is no success.
        return _as_exit_code(error.exit_code) or ExitCode.BUG
    except (OSError, ValueError) as error:
        _tell(f"error: {error}")
        return ExitCode.BAD_REQUEST


def _run(options: argparse.Namespace, progress: Progress) -> int:
    execution = ParallelExecution(
        options.request,
        output=options.output,
        root=options.root,
        wk=options.wk,
        launcher=options.launcher,
        dry_run=options.dry_run,
        verify=options.verify,
        timeout=options.timeout,
    )
    with execution:
        for event in execution:
            progress.show(event)
    if options.output is None:
        json.dump(execution.report, sys.stdout, indent=2)
        sys.stdout.write("\n")
        sys.stdout.flush()
    return _as_exit_code(execution.exit_code)


class Progress:
    """Tells on standard error what changed. What `wk` wrote for people is told always."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._last: dict[str, str] = {}

    def show(self, event: ProgressEvent) -> None:
        """Tells an event, unless it says nothing new."""
        line = describe(event)
        if line is None:
            return
        if event["event"] in ("note", "dry_run"):
            _tell(line)
            return
        about = str(event.get("task", "")) if event["event"] == "task" else ""
        if self._is_wanted and self._last.get(about) != line:
            self._last[about] = line
            _tell(line)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="orchestrate_parallel.py",
        description="Runs a batch of agents in parallel through wk, and writes its execution report.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--request", required=True, metavar="FILE", help="the execution request, or assignments"
    )
    parser.add_argument("--output", metavar="FILE", help="where the report goes (default: standard output)")
    parser.add_argument(
        "--root", metavar="DIR", help="the directory that holds .ce (default: upward, else the user's state)"
    )
    parser.add_argument(
        "--wk",
        metavar="FILE",
        help="the wk binary (default: WK_BINARY, else the PATH, else a build beside this)",
    )
    parser.add_argument("--launcher", metavar="NAME", help="how agents are started: tmux or process")
    parser.add_argument("--dry-run", action="store_true", help="check the request, and start nothing")
    parser.add_argument(
        "--verify",
        nargs="?",
        const=True,
        type=_truth,
        metavar="true|false",
        help="whether commands check the criteria (default: as the request says)",
    )
    parser.add_argument(
        "--progress", action="store_true", help="tell each change on a line of standard error"
    )
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="cancel the batch after that time, and exit with 4"
    )
    return parser


def _truth(word: str) -> bool:
    if word not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{word!r} is neither true nor false")
    return word == "true"


def _as_exit_code(of_wk: Optional[int]) -> int:
    if of_wk is None:
        return ExitCode.BUG
    # A signal that ended wk, as a shell tells it.
    return of_wk if of_wk >= 0 else 128 - of_wk


def _tell(*lines: str) -> None:
    for line in lines:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
