"""Scenes about what comes back: reports, progress and the exceptions for whatever else happens."""

from __future__ import annotations

import json
import os
import pickle
import signal
import stat
import unittest
from typing import Any

from scene import Scene
from stand_in_wk import LARGE_COUNT
from terminal_orchestrator import (
    BusHeld,
    ExecutionFailed,
    ExecutionInterrupted,
    InvalidRequest,
    ProgressEvent,
    WatchkeeperError,
    WatchkeeperNotFound,
    iterate_parallel,
)
from terminal_orchestrator.atools import orchestrate_parallel


class AReport(Scene):
    """What a batch that ran gives back."""

    def run_it(self, request: Any = None, **options: Any) -> Any:
        return orchestrate_parallel(request or self.request(), wk=self.wk, root=self.root, **options)

    def test_a_mapping_becomes_a_report(self) -> None:
        report = self.run_it()
        self.assertEqual(report["status"], "success")
        self.assertEqual(
            [agent["agent_name"] for agent in report["agents"]], ["code-generator", "code-reviewer"]
        )
        self.assert_nothing_is_left()

    def test_a_file_becomes_a_report(self) -> None:
        for path in (self.request_file(), str(self.request_file())):
            self.assertEqual(self.run_it(path)["execution_id"], "exec-001")
        self.assert_nothing_is_left()

    def test_a_mapping_is_written_where_only_the_user_can_read_it(self) -> None:
        with iterate_parallel(self.request(), wk=self.wk, root=self.root) as execution:
            (private,) = self.temporary.iterdir()
            file = private / "execution_request.json"
            self.assertEqual(stat.S_IMODE(private.stat().st_mode), 0o700)
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
            self.assertEqual(json.loads(file.read_text()), self.request())
            list(execution)
        self.assertEqual(list(self.workspace.iterdir()), [])
        self.assert_nothing_is_left()

    def test_paths_in_a_mapping_may_be_path_objects(self) -> None:
        self.assertEqual(self.run_it(self.request(workspace_root=self.workspace))["status"], "success")

    def test_what_has_no_form_in_json_is_a_type_error_and_leaves_nothing(self) -> None:
        with self.assertRaisesRegex(TypeError, "has no form in it"):
            self.run_it(self.request(execution_options={"parallel_limit": object()}))
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_a_failed_batch_returns_its_report(self) -> None:
        for status in ("failure", "partial_success", "timeout", "cancelled"):
            with self.subTest(status):
                self.play(status)
                self.assertEqual(self.run_it()["status"], status)

    def test_a_batch_that_waits_for_a_person_returns_its_report(self) -> None:
        self.play("awaiting")
        with iterate_parallel(self.request(), wk=self.wk, root=self.root) as execution:
            list(execution)
        self.assertEqual((execution.exit_code, execution.report["status"]), (6, "failure"))

    def test_with_check_a_failed_batch_is_an_exception_that_holds_the_report(self) -> None:
        self.play("failure")
        with self.assertRaisesRegex(RuntimeError, "exec-001 ended with failure: code-generator") as caught:
            self.run_it(check=True)
        assert isinstance(caught.exception, ExecutionFailed)
        self.assertEqual(caught.exception.report["status"], "failure")
        self.assertEqual(caught.exception.exit_code, 1)
        self.assert_nothing_is_left()

    def test_with_check_a_success_is_a_report(self) -> None:
        self.assertEqual(self.run_it(check=True)["status"], "success")

    def test_the_report_is_put_where_the_caller_wants_it_too(self) -> None:
        output = self.place / "report.json"
        report = self.run_it(output=output)
        self.assertEqual(json.loads(output.read_text()), report)

    def test_an_old_report_is_never_taken_for_the_new_one(self) -> None:
        output = self.place / "report.json"
        output.write_text('{"status": "success"}')
        self.play("no_report")
        with self.assertRaisesRegex(WatchkeeperError, "exit code 1, without a report"):
            self.run_it(output=output)

    def test_an_output_that_cannot_be_written_is_told_before_anything_is_started(self) -> None:
        with self.assertRaises(FileNotFoundError):
            self.run_it(output=self.place / "nowhere" / "report.json")
        with self.assertRaises(IsADirectoryError):
            self.run_it(output=self.place)
        self.assertFalse((self.root / ".ce").exists())
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_a_broken_report_is_named(self) -> None:
        self.play("broken_report")
        output = self.place / "report.json"
        with self.assertRaisesRegex(WatchkeeperError, "report.json is no JSON"):
            self.run_it(output=output)
        self.assert_nothing_is_left()

    def test_a_dry_run_starts_nothing_and_calls_nothing_a_success(self) -> None:
        for request in (self.request(), self.request_file()):
            report = self.run_it(request, dry_run=True, check=True)
            self.assertEqual((report["status"], report["agents"]), ("dry_run", []))

    def test_a_request_may_ask_for_a_dry_run_itself(self) -> None:
        self.play("odd")
        output = self.place / "report.json"
        for own_word in ({"dry_run": True}, {"execution_mode": {"dry_run": True}}):
            for request in (self.request(**own_word), self.request_file(**own_word)):
                report = self.run_it(request, output=output, check=True)
                self.assertEqual((report["status"], report["execution_id"]), ("dry_run", "exec-001"))
                self.assertEqual(report["warnings"][0]["message"], "agents[0]: something odd")
                self.assertEqual(json.loads(output.read_text()), report)
                self.assertEqual(output.stat().st_mode & 0o777, 0o644)
                output.unlink()
        self.assert_nothing_is_left()

    def test_a_batch_whose_report_is_lost_is_no_dry_run(self) -> None:
        self.play("report_is_lost")
        with self.assertRaisesRegex(WatchkeeperError, "without a report"):
            self.run_it()

    def test_options_reach_wk(self) -> None:
        self.run_it(launcher="process", verify=True)
        (call,) = self.calls()
        self.assertEqual(call["arguments"][:3], ["--root", str(self.root), "run"])
        self.assertEqual(call["arguments"][-3:], ["--launcher", "process", "--verify=true"])
        self.run_it(verify=False)
        self.assertEqual(self.calls()[-1]["arguments"][-1], "--verify=false")
        self.run_it()
        self.assertEqual(self.calls()[-1]["arguments"][-2:], ["--progress", "json"])


class Progress(Scene):
    """What is told while a batch runs."""

    def events_of(self, scene: str) -> list[Any]:
        self.play(scene)
        events: list[ProgressEvent] = []
        orchestrate_parallel(self.request(), wk=self.wk, root=self.root, on_progress=events.append)
        self.assert_nothing_is_left()
        return events

    def test_a_callback_hears_every_event_in_order(self) -> None:
        kinds = [event["event"] for event in self.events_of("success")]
        self.assertEqual(kinds, ["accepted", *["task"] * 6, "stage", "finished"])

    def test_an_iterator_tells_every_event_and_has_the_report_at_the_end(self) -> None:
        execution = iterate_parallel(self.request(), wk=self.wk, root=self.root)
        with self.assertRaisesRegex(WatchkeeperError, "has not ended yet"):
            _ = execution.report
        first = next(execution)
        self.assertEqual((first["event"], execution.batch_id), ("accepted", "exec-001"))
        self.assertEqual([event["event"] for event in execution][-1], "finished")
        self.assertEqual(execution.report["status"], "success")
        self.assertEqual(list(execution), [])
        self.assert_nothing_is_left()

    def test_unknown_events_and_fields_are_handed_on(self) -> None:
        events = self.events_of("newer")
        self.assertIn({"event": "weather", "sky": "grey"}, events)
        self.assertIn({"event": "note", "text": "a line for people"}, events)
        self.assertIn({"event": "note", "text": "[1, 2]"}, events)
        self.assertEqual(events[0]["colour"], "blue")

    def test_bytes_that_are_no_text_are_replaced(self) -> None:
        events = self.events_of("not_utf8")
        self.assertIn({"event": "task", "task": "\ufffd\ufffd", "status": "running"}, events)
        notes = [event["text"] for event in events if event["event"] == "note"]
        self.assertEqual(notes, ["warning: \ufffd", "warning: without an end of line"])

    def test_masses_on_both_pipes_and_a_large_report_arrive_whole(self) -> None:
        events = self.events_of("large")
        steps = [event["message"] for event in events if event["event"] == "task"]
        self.assertEqual(steps, [f"step {number}" for number in range(LARGE_COUNT)])
        self.assertEqual(sum(event["event"] == "note" for event in events), LARGE_COUNT)

    def test_a_process_that_inherits_the_pipes_keeps_nobody_waiting(self) -> None:
        self.play("leaves_a_heir")
        report = orchestrate_parallel(self.request(), wk=self.wk, root=self.root)
        heir = int((self.root / ".ce" / "heir").read_text())
        # It is still there, and holds both pipes: nothing here waited for their end.
        os.kill(heir, signal.SIGKILL)
        self.assertEqual(report["status"], "success")


class AnException(Scene):
    """What happens instead of a report."""

    def raised(self, scene: str, **options: Any) -> WatchkeeperError:
        self.play(scene)
        with self.assertRaises(WatchkeeperError) as caught:
            orchestrate_parallel(self.request(), wk=self.wk, root=self.root, **options)
        self.assert_nothing_is_left()
        return caught.exception

    def test_a_refused_request_names_every_defect(self) -> None:
        agents = self.request()["agents"]
        agents[0]["dependencies"], agents[1]["dependencies"] = ["nobody"], ["no one"]
        with self.assertRaises(ValueError) as caught:
            orchestrate_parallel(self.request(agents=agents), wk=self.wk, root=self.root)
        error = caught.exception
        assert isinstance(error, InvalidRequest)
        self.assertEqual(
            [defect["place"] for defect in error.defects],
            ["agents[0].dependencies", "agents[1].dependencies"],
        )
        self.assertRegex(str(error), "`nobody` is no agent(.|\n)*name one of its agents(.|\n)*`no one`")
        self.assert_nothing_is_left()

    def test_a_caller_who_ignores_the_ends_of_its_children_hears_of_a_refusal_all_the_same(self) -> None:
        # The exit code is lost then: Python tells it as 0.
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGCHLD, before)
        agents = self.request()["agents"]
        agents[0]["dependencies"] = ["nobody"]
        with self.assertRaises(InvalidRequest):
            orchestrate_parallel(self.request(agents=agents), wk=self.wk, root=self.root, dry_run=True)

    def test_a_refused_option_is_an_invalid_request_in_the_words_of_wk(self) -> None:
        error = self.raised("success", launcher="rocket")
        self.assertIsInstance(error, InvalidRequest)
        self.assertIn("rocket", str(error))

    def test_a_held_bus_is_told_with_its_hint(self) -> None:
        error = self.raised("held")
        self.assertIsInstance(error, BusHeld)
        self.assertEqual(str(error), "error: this bus is watched\nhint: put the launcher into the settings")

    def test_a_disk_error_is_an_os_error(self) -> None:
        error = self.raised("disk_error")
        self.assertIsInstance(error, OSError)
        self.assertIn("no space left", str(error))

    def test_a_bug_is_told_with_what_wk_printed(self) -> None:
        error = self.raised("bug")
        self.assertEqual(str(error), "wk ended with exit code 70, without a report\nthread 'main' panicked")

    def test_a_killed_wk_is_told_by_the_signal(self) -> None:
        self.assertEqual(str(self.raised("killed")), "wk was ended by SIGKILL, without a report")

    def test_a_wk_that_somebody_else_stopped_is_told_as_that(self) -> None:
        self.assertIsInstance(self.raised("stopped_by_another"), ExecutionInterrupted)

    def test_a_request_file_that_is_not_there_is_the_usual_error(self) -> None:
        with self.assertRaises(FileNotFoundError) as caught:
            orchestrate_parallel(self.place / "nowhere.json", wk=self.wk, root=self.root)
        self.assertNotIsInstance(caught.exception, WatchkeeperNotFound)
        self.assertEqual(caught.exception.filename, str(self.place / "nowhere.json"))

    def test_a_timeout_that_is_no_duration_is_refused(self) -> None:
        for timeout in (-1, float("nan")):
            with self.assertRaisesRegex(ValueError, "at least 0"):
                orchestrate_parallel(self.request(), wk=self.wk, root=self.root, timeout=timeout)

    def test_a_program_that_cannot_be_started_is_named(self) -> None:
        broken = self.place / "broken"
        broken.write_text("#!/nowhere/interpreter\n")
        broken.chmod(0o755)
        with self.assertRaisesRegex(WatchkeeperError, "cannot start .*broken"):
            orchestrate_parallel(self.request(), wk=broken, root=self.root)

    def test_exceptions_travel_between_processes(self) -> None:
        errors: list[WatchkeeperError] = [
            self.raised("held"),
            self.raised("disk_error"),
            self.raised("failure", check=True),
            WatchkeeperNotFound("there is none"),
        ]
        for error in errors:
            arrived = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(arrived), str(arrived)), (type(error), str(error)))
            self.assertEqual(arrived.__dict__, error.__dict__)
            self.assertEqual(getattr(arrived, "errno", None), getattr(error, "errno", None))


if __name__ == "__main__":
    unittest.main()
