"""One batch under way: starts `wk run`, hands on its progress, and sees to it that it ends as it should.

Decides nothing about the batch itself. Whoever stops looking says what becomes of it: Ctrl-C keeps it, an
error of the caller and a `timeout` cancel it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Callable, NoReturn, Optional, Union, cast

from terminal_orchestrator.binary import StrPath, find_wk
from terminal_orchestrator.bus_root import choose_root
from terminal_orchestrator.ending import Ending, ReportFile, error_of
from terminal_orchestrator.errors import ExecutionFailed, ExecutionTimeout, WatchkeeperError
from terminal_orchestrator.events import Defect, DryRunEvent, ProgressEvent, note, read_event
from terminal_orchestrator.exit_code import WITH_REPORT, ExitCode
from terminal_orchestrator.process import Child, Ended, Told
from terminal_orchestrator.report import ExecutionReport, ReportEntry
from terminal_orchestrator.request import AnyRequest

ACCEPTANCE_SECONDS_MAX = 15.0
"""How long a batch that is to be cancelled may take to get the name by which that is done."""

CANCEL_SECONDS_MAX = 60.0
"""How long a cancelled batch may take: agents get a grace of 10 s each before they are killed."""

STOP_SECONDS_MAX = 10.0
"""How long `wk` may take to stop watching before it is killed; a batch survives that."""

KILLED_SECONDS_MAX = 60.0
"""How long the end of a killed `wk` is waited for: it is certain, and on a busy machine it may be late."""

STDERR_LINES_KEPT = 200


class ParallelExecution(Iterator[ProgressEvent]):
    """A batch under way: an iterator over its progress, with `report` at the end. Best used in `with`.

    Leaving the `with` block before the end cancels the batch; `KeyboardInterrupt` alone keeps it.
    """

    def __init__(
        self,
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
    ) -> None:
        self._child: Optional[Child] = None
        # Negated, so that a number that is none is refused too.
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout={timeout}: it is a number of seconds, at least 0")
        self.batch_id: Optional[str] = None
        self.exit_code: Optional[int] = None
        self._wk = find_wk(wk)
        self._dry_run, self._check, self._timeout = dry_run, check, timeout
        self._dry_run_event: Optional[DryRunEvent] = None
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES_KEPT)
        self._execution_id = str(request.get("execution_id", "")) if isinstance(request, Mapping) else ""
        self._defects: Optional[list[Defect]] = None
        self._report: Optional[ExecutionReport] = None
        # Only the user may look into it, and it goes away with the execution.
        self._private = tempfile.TemporaryDirectory(prefix="watchkeeper-")
        try:
            self._request = self._write_down(request)
            own_report = os.path.join(self._private.name, "execution_report.json")
            self._report_file = ReportFile(own_report if output is None else output)
            self._root = choose_root(root, self._request)
            self._deadline = None if timeout is None else time.monotonic() + timeout
            self._child = self._start(launcher=launcher, verify=verify)
        except BaseException:
            self._private.cleanup()
            raise

    @property
    def report(self) -> ExecutionReport:
        """The report, once the batch has ended."""
        if self._report is None:
            state = "has not ended yet" if self._child else "left none"
            raise WatchkeeperError(f"there is no report: the execution {state}")
        return self._report

    def cancel(self, why: str = "asked for from Python") -> bool:
        """Asks for the end of the batch, and says whether that could be asked. Iterate on to see it end."""
        if self._child is None or self.batch_id is None:
            return False
        wish = [self._wk, "--root", self._root, "cancel", self.batch_id, "--why", why]
        try:
            asked = subprocess.run(
                wish, stdin=subprocess.DEVNULL, capture_output=True, timeout=STOP_SECONDS_MAX, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self._stderr.append(f"error: the batch could not be cancelled: {error}")
            return False
        if asked.returncode != 0:
            self._stderr.extend(asked.stderr.decode("utf-8", errors="replace").splitlines())
        return asked.returncode == 0

    def close(self) -> None:
        """Cancels the batch if it has not ended. Nothing is left running, or waiting to be reaped."""
        self._cancel_and_wait("the Python caller has closed it")

    def __iter__(self) -> ParallelExecution:
        return self

    def __next__(self) -> ProgressEvent:
        if self._child is None:
            raise StopIteration
        try:
            # A batch that ended in time is not late because the caller is slow to hear of it.
            told = self._child.next(None if self._child.has_ended() else self._deadline)
            event = None if told is None else self._take(told)
        except BaseException as interruption:
            # Ctrl-C, or what a signal handler of the caller raised.
            self._stop_watching(interruption)
            raise
        if told is None:
            self._give_up()
        if event is None:
            self._conclude()
            raise StopIteration
        return event

    def __enter__(self) -> ParallelExecution:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        _traceback: Optional[TracebackType],
    ) -> None:
        if self._child is None:
            return
        if isinstance(error, KeyboardInterrupt):
            self._stop_watching(error)
            return
        why = "its block was left" if kind is None else f"{kind.__name__} in the Python caller"
        words = self._cancel_and_wait(why)
        if error is not None:
            _add_note(error, words)

    def __del__(self) -> None:
        if getattr(self, "_child", None) is not None:
            warnings.warn(f"{self!r} was dropped; its batch is kept", ResourceWarning, stacklevel=2)
            self._end_child(Child.terminate)
            self._private.cleanup()

    def _write_down(self, request: Union[AnyRequest, StrPath]) -> str:
        """The request as a file: the caller's own, or a private one that the user alone can read."""
        if not isinstance(request, Mapping):
            path = os.path.abspath(os.fspath(request))
            # Not to be there, or not to be readable, is the caller's ordinary OSError.
            with open(path, "rb"):
                return path
        text = json.dumps(request, default=_path_as_text, allow_nan=False, indent=2)
        path = os.path.join(self._private.name, "execution_request.json")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def _start(self, *, launcher: Optional[str], verify: Optional[bool]) -> Child:
        command = [self._wk, "--root", self._root, "run", self._request]
        command += ["--output", self._report_file.path, "--progress", "json"]
        if launcher is not None:
            command += ["--launcher", launcher]
        if self._dry_run:
            command.append("--dry-run")
        if verify is not None:
            command.append(f"--verify={str(verify).lower()}")
        try:
            return Child(command)
        except OSError as error:
            raise WatchkeeperError(f"cannot start {self._wk}: {error}") from error

    def _take(self, told: Told) -> Optional[ProgressEvent]:
        """Remembers what matters of it, and makes it an event; None at the end."""
        if isinstance(told, Ended):
            self.exit_code = told.exit_code
            self._child = None
            return None
        if told.is_error_output:
            self._stderr.append(told.text)
            return note(told.text)
        event = read_event(told.text)
        if event["event"] == "accepted":
            self.batch_id = str(event.get("batch_id"))
            self._execution_id = str(event.get("execution_id"))
        elif event["event"] == "dry_run":
            self._dry_run_event = event
        elif event["event"] == "refused":
            listed = event.get("defects")
            defects = listed if isinstance(listed, list) else []
            self._defects = [defect for defect in defects if isinstance(defect, dict)]
        return event

    def _conclude(self) -> None:
        """`wk` has ended: finds the report, or raises what happened instead."""
        exit_code = cast(int, self.exit_code)
        try:
            if exit_code in WITH_REPORT and self._defects is None:
                self._report = self._report_file.read() or self._report_of_a_dry_run(exit_code)
        finally:
            self._private.cleanup()
        if self._report is None:
            raise error_of(Ending(exit_code, "\n".join(self._stderr), self._defects))
        if self._check and self._report.get("status") not in ("success", "dry_run"):
            raise ExecutionFailed(self._report, exit_code=exit_code)

    def _report_of_a_dry_run(self, exit_code: int) -> Optional[ExecutionReport]:
        """Nothing was done, so nothing is called a success. The request itself may have asked for that."""
        event = self._dry_run_event
        is_dry_run = (self._dry_run and self.batch_id is None) or event is not None
        if not is_dry_run or exit_code != ExitCode.SUCCESS:
            return None
        report: ExecutionReport = {
            "execution_id": (event and event.get("execution_id")) or self._execution_id,
            "status": "dry_run",
            "agents": [],
            "errors": [],
            "warnings": _warnings_of(event),
        }
        self._report_file.write(report)
        return report

    def _give_up(self) -> NoReturn:
        """The caller's time has passed: cancels the batch, and raises that."""
        words = self._cancel_and_wait(f"the Python caller's timeout of {self._timeout:g} s has passed")
        raise ExecutionTimeout(
            f"the execution took longer than {self._timeout:g} s; {words}",
            timeout=cast(float, self._timeout),
            batch_id=self.batch_id,
            report=self._report,
            exit_code=self.exit_code,
            stderr="\n".join(self._stderr),
        )

    def _cancel_and_wait(self, why: str) -> str:
        """Ends the batch and then `wk`, come what may; tells what became of it, and keeps the report."""
        if self._child is None:
            return "it had ended before"
        try:
            self._wait(ACCEPTANCE_SECONDS_MAX, for_acceptance=True)
            if self.cancel(why):
                self._wait(CANCEL_SECONDS_MAX)
            self._end_child(Child.terminate)
            self._report = self._report_file.read()
        except WatchkeeperError as broken_report:
            self._stderr.append(f"error: {broken_report}")
        finally:
            self._end_child()
            self._private.cleanup()
        if self.batch_id is None:
            return "no batch was accepted"
        if self._report is None:
            return f"the end of batch {self.batch_id} is not confirmed. {self._ways_on()}"
        return f"batch {self.batch_id} ended with {self._report.get('status')}"

    def _stop_watching(self, interruption: BaseException) -> None:
        """Passes the interruption on to `wk`, which keeps the batch, and says how to go on."""
        try:
            self._end_child(Child.interrupt, Child.terminate)
        finally:
            self._private.cleanup()
        if self.batch_id is not None:
            _add_note(interruption, f"batch {self.batch_id} is kept as it is. {self._ways_on()}")

    def _ways_on(self) -> str:
        wk = f"{shlex.quote(self._wk)} --root {shlex.quote(self._root)}"
        return f"`{wk} watch` goes on with it, `{wk} cancel {self.batch_id}` ends it"

    def _end_child(self, *asks: Callable[[Child], None]) -> None:
        """Ends `wk` itself, by asking and then by force, and reaps it. A batch survives even that."""
        try:
            for ask in asks:
                if self._child is not None:
                    ask(self._child)
                    self._wait(STOP_SECONDS_MAX)
        finally:
            # Also when a second Ctrl-C arrives while we wait.
            if self._child is not None:
                self._child.kill()
                self._wait(KILLED_SECONDS_MAX)
                self._child = None

    def _wait(self, seconds: float, *, for_acceptance: bool = False) -> None:
        """Takes what `wk` says, until it has ended or the time has passed."""
        until = time.monotonic() + seconds
        while self._child is not None and not (for_acceptance and self.batch_id is not None):
            told = self._child.next(until)
            if told is None:
                return
            self._take(told)


def _warnings_of(event: Optional[DryRunEvent]) -> list[ReportEntry]:
    checked = event.get("check") if event is not None else None
    told = checked.get("warnings") if isinstance(checked, dict) else None
    texts = [str(text) for text in told] if isinstance(told, list) else []
    return [{"agent": None, "message": text, "severity": "low", "code": "request"} for text in texts]


def _path_as_text(value: object) -> str:
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise TypeError(f"a request is JSON, and {value!r} has no form in it")


def _add_note(error: BaseException, text: str) -> None:
    if sys.version_info >= (3, 11):
        error.add_note(text)
    elif not error.args:
        error.args = (text,)
