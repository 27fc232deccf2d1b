"""Scenes about batches that are left before their end: by time, by error, by Ctrl-C, by forgetting."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import unittest
from typing import Any
from unittest import mock

from scene import Scene
from terminal_orchestrator import (
    ExecutionTimeout,
    ParallelExecution,
    ProgressEvent,
    iterate_parallel,
    orchestrate_parallel,
)
from terminal_orchestrator.events import read_event
from terminal_orchestrator.process import Child


class Stopping(Scene):
    """A batch that would run for ever, and how it ends."""

    def begin(self, scene: str = "without_end", **options: Any) -> ParallelExecution:
        self.play(scene)
        return iterate_parallel(self.request(), wk=self.wk, root=self.root, **options)

    def was_cancelled(self) -> bool:
        return any("cancel" in call["arguments"] for call in self.calls())

    def reason_of_cancel(self) -> str:
        return (self.root / ".ce" / "cancel-exec-001").read_text()


class Time(Stopping):
    """The caller's own limit."""

    def test_a_batch_that_takes_too_long_is_cancelled_and_its_report_is_attached(self) -> None:
        self.play("without_end")
        with self.assertRaises(TimeoutError) as caught:
            orchestrate_parallel(self.request(), wk=self.wk, root=self.root, timeout=0.2)
        error = caught.exception
        assert isinstance(error, ExecutionTimeout)
        assert error.report is not None
        self.assertEqual(
            (error.report["status"], error.batch_id, error.timeout), ("cancelled", "exec-001", 0.2)
        )
        self.assertIn("batch exec-001 ended with cancelled", str(error))
        self.assertIn("timeout of 0.2 s", self.reason_of_cancel())
        self.assert_nothing_is_left()

    def test_a_flood_of_events_does_not_hide_the_time(self) -> None:
        self.play("floods")
        with self.assertRaises(ExecutionTimeout):
            orchestrate_parallel(self.request(), wk=self.wk, root=self.root, timeout=0.2)
        self.assert_nothing_is_left()

    def test_a_caller_who_is_slow_to_listen_has_still_no_late_batch(self) -> None:
        with self.begin("success", timeout=60) as execution:
            child = execution._child
            assert child is not None
            child._process.wait()
            execution._deadline = 0.0
            list(execution)
        self.assertEqual(execution.report["status"], "success")

    def test_a_batch_that_was_never_accepted_is_ended_with_wk(self) -> None:
        self.set_limit("ACCEPTANCE_SECONDS_MAX", 0.1)
        with self.begin("never_accepted") as execution:
            self.assertEqual(next(execution)["event"], "stage")
            execution._timeout, execution._deadline = 0.0, 0.0
            with self.assertRaisesRegex(ExecutionTimeout, "no batch was accepted"):
                next(execution)
        self.assertFalse(self.was_cancelled())
        self.assert_nothing_is_left()

    def test_a_deaf_wk_is_killed_and_nothing_is_claimed_of_its_batch(self) -> None:
        self.set_limit("CANCEL_SECONDS_MAX", 0.1)
        self.set_limit("STOP_SECONDS_MAX", 2)
        with self.begin("deaf") as execution:
            self.assertEqual(next(execution)["event"], "accepted")
            execution._timeout, execution._deadline = 0.0, 0.0
            with self.assertRaisesRegex(
                ExecutionTimeout, "not confirmed.*cancel exec-001` ends it"
            ) as caught:
                next(execution)
        self.assertIsNone(caught.exception.report)
        self.assertEqual(caught.exception.exit_code, -signal.SIGKILL)
        self.assert_nothing_is_left()

    def test_a_batch_that_cannot_be_cancelled_says_why_and_how_to_go_on(self) -> None:
        with self.begin("cannot_be_cancelled") as execution:
            next(execution)
            execution._timeout, execution._deadline = 0.0, 0.0
            with self.assertRaisesRegex(ExecutionTimeout, "not confirmed") as caught:
                next(execution)
        self.assertIn("error: no such batch", caught.exception.stderr)
        self.assert_nothing_is_left()


class Errors(Stopping):
    """Exceptions of the caller."""

    def test_an_exception_in_a_callback_cancels_the_batch_and_comes_out(self) -> None:
        def fail(event: ProgressEvent) -> None:
            if event["event"] == "task":
                raise LookupError("no such colour")

        self.play("without_end")
        with self.assertRaisesRegex(LookupError, "no such colour") as caught:
            orchestrate_parallel(self.request(), wk=self.wk, root=self.root, on_progress=fail)
        self.assertEqual(self.reason_of_cancel(), "LookupError in the Python caller")
        if sys.version_info >= (3, 11):
            self.assertEqual(caught.exception.__notes__, ["batch exec-001 ended with cancelled"])
        self.assert_nothing_is_left()

    def test_leaving_the_block_early_cancels_the_batch(self) -> None:
        with self.begin() as execution:
            for _event in execution:
                break
        self.assertEqual(execution.report["status"], "cancelled")
        self.assert_nothing_is_left()

    def test_a_batch_can_be_cancelled_and_watched_to_its_end(self) -> None:
        with self.begin() as execution:
            self.assertFalse(execution.cancel(), "before it has a name, nothing can be asked for")
            next(execution)
            self.assertTrue(execution.cancel("wrong branch"))
            list(execution)
        self.assertEqual((execution.report["status"], execution.exit_code), ("cancelled", 5))
        self.assertEqual(self.reason_of_cancel(), "wrong branch")
        self.assert_nothing_is_left()

    def test_closing_twice_is_closing_once(self) -> None:
        execution = self.begin()
        execution.close()
        execution.close()
        self.assertEqual(execution.report["status"], "cancelled")
        self.assert_nothing_is_left()

    def test_a_forgotten_execution_is_reaped_and_its_batch_is_kept(self) -> None:
        execution = self.begin()
        next(execution)
        with self.assertWarnsRegex(ResourceWarning, "was dropped; its batch is kept"):
            del execution
            gc.collect()
        self.assertFalse(self.was_cancelled())
        self.assert_nothing_is_left()


class CtrlC(Stopping):
    """Interruption from the keyboard."""

    def setUp(self) -> None:
        super().setUp()
        self.listen_to_ctrl_c()

    def assert_kept(self, interruption: BaseException) -> None:
        self.assertFalse(self.was_cancelled())
        note = getattr(interruption, "__notes__", None) or interruption.args
        self.assertRegex(note[0], "batch exec-001 is kept as it is.* watch` goes on with it")
        self.assert_nothing_is_left()

    def begin_and_hear_all(self) -> ParallelExecution:
        """A batch that tells nothing more: whoever asks it for the next event waits."""
        execution = self.begin()
        for event in execution:
            if event["event"] == "task" and event["task"] == "code-reviewer":
                break
        return execution

    def send_when_the_caller_waits(self, number: signal.Signals) -> None:
        """Sends a signal as soon as the main thread waits for the child."""
        main = threading.main_thread().ident
        assert main is not None

        def waits() -> bool:
            frame = sys._current_frames().get(main)
            while frame is not None and frame.f_code is not Child.next.__code__:
                frame = frame.f_back
            return frame is not None

        def send() -> None:
            while not waits():
                time.sleep(0.01)
            signal.pthread_kill(main, number)

        sending = threading.Thread(target=send)
        sending.start()
        self.addCleanup(sending.join)

    def test_an_interruption_while_waiting_keeps_the_batch_and_says_how_to_go_on(self) -> None:
        execution = self.begin_and_hear_all()
        with self.assertRaises(KeyboardInterrupt) as caught, execution:
            self.send_when_the_caller_waits(signal.SIGINT)
            next(execution)
        self.assertEqual(execution.exit_code, 130)
        self.assert_kept(caught.exception)

    def test_what_a_signal_handler_raises_while_waiting_keeps_the_batch_too(self) -> None:
        def end(*_signal: object) -> None:
            sys.exit("asked to end")

        before = signal.signal(signal.SIGTERM, end)
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        execution = self.begin_and_hear_all()
        with self.assertRaisesRegex(SystemExit, "asked to end"):
            self.send_when_the_caller_waits(signal.SIGTERM)
            list(execution)
        self.assertEqual(execution.exit_code, 130)
        self.assertFalse(self.was_cancelled())
        self.assert_nothing_is_left()

    def test_what_a_signal_handler_raises_while_an_event_is_read_keeps_the_batch_too(self) -> None:
        def interrupted_once(_line: str) -> ProgressEvent:
            reading.side_effect = read_event
            sys.exit("asked to end")

        execution = self.begin()
        next(execution)
        place = "terminal_orchestrator.execution.read_event"
        with mock.patch(place, side_effect=interrupted_once) as reading:
            self.assertRaisesRegex(SystemExit, "asked to end", next, execution)
        self.assertEqual(execution.exit_code, 130)
        self.assertFalse(self.was_cancelled())
        self.assert_nothing_is_left()

    def test_an_interruption_in_a_callback_keeps_the_batch_too(self) -> None:
        def interrupt(_event: ProgressEvent) -> None:
            signal.raise_signal(signal.SIGINT)

        self.play("without_end")
        with self.assertRaises(KeyboardInterrupt) as caught:
            orchestrate_parallel(self.request(), wk=self.wk, root=self.root, on_progress=interrupt)
        self.assert_kept(caught.exception)

    def test_a_deaf_wk_is_killed_after_an_interruption(self) -> None:
        self.set_limit("STOP_SECONDS_MAX", 2)
        with self.assertRaises(KeyboardInterrupt) as caught, self.begin("deaf") as execution:
            next(execution)
            raise KeyboardInterrupt
        self.assertEqual(execution.exit_code, -signal.SIGKILL)
        self.assert_kept(caught.exception)


if __name__ == "__main__":
    unittest.main()
