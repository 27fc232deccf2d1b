"""Scenes about the command line, run by its path, as somebody would who has installed nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from scene import PROJECT, SCRIPT, Scene


class CommandLine(Scene):
    """`python …/orchestrate_parallel.py --request R --output O`."""

    def setUp(self) -> None:
        super().setUp()
        self.output = self.place / "report.json"
        os.environ["WK_BINARY"] = str(self.wk)

    def command(self, *more: str) -> list[str]:
        return [
            sys.executable,
            str(SCRIPT),
            "--request",
            str(self.request_file()),
            "--root",
            str(self.root),
            *more,
        ]

    def run_it(self, *more: str, scene: str = "success") -> subprocess.CompletedProcess[str]:
        self.play(scene)
        return subprocess.run(
            self.command(*more), cwd=self.place, capture_output=True, text=True, check=False, timeout=120
        )

    def test_request_in_report_out(self) -> None:
        ran = self.run_it("--output", str(self.output))
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "", ""))
        self.assertEqual(json.loads(self.output.read_text())["status"], "success")
        self.assert_nothing_is_left()

    def test_a_relative_path_and_a_link_to_the_script_work_too(self) -> None:
        link = self.place / "orchestrate"
        link.symlink_to(SCRIPT)
        command = [
            sys.executable,
            "orchestrate",
            "--request",
            self.request_file().name,
            "--output",
            "report.json",
        ]
        ran = subprocess.run(command, cwd=self.place, capture_output=True, text=True, check=False)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertTrue(self.output.exists())

    def test_the_package_and_the_script_are_one_program(self) -> None:
        command = [sys.executable, "-m", "terminal_orchestrator", "--request", str(self.request_file())]
        ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        self.assertEqual(json.loads(ran.stdout)["status"], "success")

    def test_without_an_output_the_report_is_printed(self) -> None:
        self.assertEqual(json.loads(self.run_it().stdout)["execution_id"], "exec-001")

    def test_the_exit_code_is_that_of_wk(self) -> None:
        codes = {"failure": 1, "partial_success": 3, "timeout": 4, "cancelled": 5, "awaiting": 6, "bug": 70}
        codes.update({"disk_error": 74, "held": 75, "no_report": 1, "killed": 128 + signal.SIGKILL})
        for scene, code in codes.items():
            with self.subTest(scene):
                self.assertEqual(self.run_it("--output", str(self.output), scene=scene).returncode, code)

    def test_errors_are_told_once(self) -> None:
        held = self.run_it(scene="held")
        self.assertEqual(
            held.stderr, "error: this bus is watched\nhint: put the launcher into the settings\n"
        )
        ended = self.run_it(scene="killed")
        self.assertEqual(ended.stderr, "error: wk was ended by SIGKILL, without a report\n")
        self.assertEqual((held.stdout, ended.stdout), ("", ""))

    def test_progress_is_a_line_a_change(self) -> None:
        told = self.run_it("--output", str(self.output), "--progress").stderr.splitlines()
        self.assertEqual(
            told,
            [
                "batch exec-001 is accepted",
                "code-generator: running, 40%",
                "code-generator: success",
                "code-reviewer: running, 40%",
                "code-reviewer: success",
                "stage: merge",
                "the batch has ended: success",
            ],
        )

    def test_a_dry_run_shows_what_would_be_done(self) -> None:
        for scene in ("success", "older"):
            ran = self.run_it("--dry-run", "--output", str(self.output), scene=scene)
            self.assertEqual((ran.returncode, ran.stderr), (0, "1 stage: code-generator\n"))
            report = json.loads(self.output.read_text())
            self.assertEqual(report["status"], "dry_run")
            self.output.unlink()

    def test_an_error_never_ends_with_exit_code_0(self) -> None:
        for scene in ("report_is_lost", "broken_report"):
            ran = self.run_it("--output", str(self.output), scene=scene)
            self.assertEqual(ran.returncode, 70, scene)
            self.assertIn("error: ", ran.stderr)

    def test_verification_is_passed_on_as_it_was_said(self) -> None:
        said = {"": "", "--verify": "--verify=true", "--verify=false": "--verify=false"}
        for word, passed in said.items():
            self.run_it("--output", str(self.output), *word.split())
            arguments = self.calls()[-1]["arguments"]
            self.assertEqual("".join(one for one in arguments if one.startswith("--verify")), passed)
        self.assertEqual(self.run_it("--verify=maybe").returncode, 2)

    def test_a_timeout_cancels_and_exits_with_4(self) -> None:
        ran = self.run_it("--timeout", "0.2", scene="without_end")
        self.assertEqual(ran.returncode, 4)
        self.assertRegex(
            ran.stderr, "error: the execution took longer than 0.2 s; batch exec-001 ended with cancelled"
        )
        self.assert_nothing_is_left()

    def test_ctrl_c_keeps_the_batch_and_exits_with_130(self) -> None:
        self.listen_to_ctrl_c()
        self.play("without_end")
        with subprocess.Popen(
            self.command("--progress"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            self.assertEqual(process.stderr.readline(), "batch exec-001 is accepted\n")
            process.send_signal(signal.SIGINT)
            told = process.stderr.read()
        self.assertEqual(process.returncode, 130)
        self.assertIn("batch exec-001 is kept as it is", told)
        self.assertNotIn("Traceback", told)
        self.assert_nothing_is_left()

    def test_a_missing_request_and_a_missing_wk_are_errors_with_hints(self) -> None:
        self.play("success")
        command = [sys.executable, str(SCRIPT), "--request", str(self.place / "nowhere.json")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 2)
        self.assertRegex(ran.stderr, r"\Aerror: .*nowhere\.json")
        ran = self.run_it("--wk", str(Path("nowhere") / "wk"))
        self.assertEqual(ran.returncode, 127)
        self.assertRegex(ran.stderr, r"\Aerror: (.|\n)*\nhint: ")

    def test_help_has_examples(self) -> None:
        ran = subprocess.run(
            [sys.executable, str(SCRIPT), "--help"], capture_output=True, text=True, check=True
        )
        self.assertIn("--request execution_request.json --output execution_report.json", ran.stdout)


if __name__ == "__main__":
    unittest.main()
