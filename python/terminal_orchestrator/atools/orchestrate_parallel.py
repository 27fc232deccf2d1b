"""Runs a batch of agents in parallel and returns its report; also a program, which may be run by its path.

Everything is done by `wk`; this is the way in and out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable, Optional, Union

if __name__ == "__main__" and not __package__:
    # Run by its path, perhaps without being installed: the package is where this file is.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from terminal_orchestrator.binary import StrPath
from terminal_orchestrator.events import ProgressEvent
from terminal_orchestrator.execution import ParallelExecution
from terminal_orchestrator.report import ExecutionReport
from terminal_orchestrator.request import AnyRequest

__all__ = ["iterate_parallel", "orchestrate_parallel"]


def orchestrate_parallel(
    request: Union[AnyRequest, StrPath],
    *,
    output: Optional[StrPath] = None,
    root: Optional[StrPath] = None,
    wk: Optional[StrPath] = None,
    launcher: Optional[str] = None,
    dry_run: bool = False,
    verify: Optional[bool] = None,
    on_progress: Optional[Callable[[ProgressEvent], None]] = None,
    timeout: Optional[float] = None,
    check: bool = False,
) -> ExecutionReport:
    """Runs the batch to its end and returns its report; a batch that failed has one too.

    Args:
        request: The execution request, or assignments, as a mapping or as the path of a JSON file.
        output: Where to put the report besides `execution_report.json` in the workspace.
        root: The directory that holds `.ce/`. By default the nearest one upward that does, else a directory
            among the user's state.
        wk: The binary. By default that of the variable WK_BINARY, of the PATH, or built in this checkout.
        launcher: How agents are started: `tmux` or `process`. By default as the settings say.
        dry_run: Checks the request and starts nothing. The report's status is then `dry_run`; so it is
            where assignments ask for a dry run themselves.
        verify: Whether commands check the criteria; by default as the request says.
        on_progress: Called, in this thread, with every event. If it raises, the batch is cancelled and the
            exception comes out of here.
        timeout: Seconds after which the batch is cancelled, from here; noticed between events.
        check: Whether a batch that did not succeed is an exception.

    Raises:
        InvalidRequest: The request or an option was refused; `defects` says why. A ValueError.
        ExecutionFailed: With `check`: the batch did not succeed; `report` says why. A RuntimeError.
        ExecutionTimeout: `timeout` has passed; `report` is there if the batch ended. A TimeoutError.
        WatchkeeperNotFound: There is no `wk`. A FileNotFoundError.
        BusHeld: Another watcher holds the bus, and its settings rule there.
        WatchkeeperError: The base of these, and whatever else `wk` cannot do.
        KeyboardInterrupt: As always; the batch is kept, and a note says how to go on with it.
    """
    with iterate_parallel(
        request,
        output=output,
        root=root,
        wk=wk,
        launcher=launcher,
        dry_run=dry_run,
        verify=verify,
        timeout=timeout,
        check=check,
    ) as execution:
        for event in execution:
            if on_progress is not None:
                on_progress(event)
    return execution.report


def iterate_parallel(
    request: Union[AnyRequest, StrPath],
    *,
    output: Optional[StrPath] = None,
    root: Optional[StrPath] = None,
    wk: Optional[StrPath] = None,
    launcher: Optional[str] = None,
    dry_run: bool = False,
    verify: Optional[bool] = None,
    timeout: Optional[float] = None,
    check: bool = False,
) -> ParallelExecution:
    """Starts the batch and returns an iterator over its progress; arguments as in `orchestrate_parallel`.

    Use it in a `with` block, which cancels the batch if it is left before the end:

        with iterate_parallel(request) as execution:
            for event in execution:
                print(event)
        print(execution.report["status"])
    """
    return ParallelExecution(
        request,
        output=output,
        root=root,
        wk=wk,
        launcher=launcher,
        dry_run=dry_run,
        verify=verify,
        timeout=timeout,
        check=check,
    )


if __name__ == "__main__":
    from terminal_orchestrator.command_line import main

    sys.exit(main())
