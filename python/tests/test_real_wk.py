"""Scenes with the real `wk`, named by WK_BINARY, and with agents that are small shell scripts.

Skipped without that variable: the other scenes have a stand-in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any, cast

from scene import SCRIPT, Scene
from terminal_orchestrator import (
    Assignments,
    AssignmentsReport,
    ExecutionTimeout,
    InvalidRequest,
    ProgressEvent,
    iterate_parallel,
    orchestrate_parallel,
)

# Read before a scene empties the environment.
REAL_WK = os.path.abspath(os.environ["WK_BINARY"]) if os.environ.get("WK_BINARY") else None


@unittest.skipUnless(REAL_WK, "WK_BINARY does not name the real wk")
class RealWk(Scene):
    """The two agents of the handoff: one writes code, the other reviews it."""

    def setUp(self) -> None:
        super().setUp()
        os.environ["WK_BINARY"] = str(REAL_WK)
        here = self.make_dir("here")
        self.addCleanup(os.chdir, Path.cwd())
        os.chdir(here)
        self.outputs = self.workspace / "outputs"

    def agent(self, name: str, *lines: str) -> str:
        """An agent's directory: what it does is its program `run`."""
        directory = self.make_dir(f"agents/{name}")
        program = directory / "run"
        program.write_text("\n".join(["#!/bin/sh", "set -e", *lines, ""]))
        program.chmod(0o755)
        return str(directory)

    def pack(self, name: str, node: str) -> list[str]:
        """Lines that write an agent's context: one node, named after what the agent made."""
        graph = {
            "metadata": {"agent": name, "timestamp": "2025-10-30T14:30:00Z", "version": "1.0"},
            "nodes": [{"id": node, "type": "module", "name": node, "attributes": {}}],
            "edges": [],
        }
        return [f"cat > '{self.outputs}/{name}/output.ctxp' <<'END'", json.dumps(graph), "END"]

    def handoff(self, writer: list[str], reviewer: list[str]) -> dict[str, Any]:
        of_writer, of_reviewer = self.outputs / "code-generator", self.outputs / "code-reviewer"
        return {
            "execution_id": "exec-20251030-1430-abc123",
            "request_timestamp": "2025-10-30T14:30:00Z",
            "workspace_root": str(self.workspace),
            "agents": [
                {
                    "agent_name": "code-generator",
                    "agent_path": self.agent("code-generator", *writer),
                    "task": {
                        "description": "Implement user authentication",
                        "inputs": {},
                        "outputs": {
                            "code": str(of_writer / "code"),
                            "ctxpack": str(of_writer / "output.ctxp"),
                        },
                        "success_criteria": {},
                    },
                    "dependencies": [],
                    "timeout": 600,
                },
                {
                    "agent_name": "code-reviewer",
                    "agent_path": self.agent("code-reviewer", *reviewer),
                    "task": {
                        "description": "Review the implementation",
                        "inputs": {"code": str(of_writer / "code")},
                        "outputs": {
                            "review": str(of_reviewer / "review.md"),
                            "ctxpack": str(of_reviewer / "output.ctxp"),
                        },
                        "success_criteria": {},
                    },
                    "dependencies": ["code-generator"],
                    "timeout": 600,
                },
            ],
            "merge_strategy": {"type": "ctxpack_union", "conflict_resolution": "manual_review"},
            "execution_options": {"parallel_limit": 4, "retry_on_failure": False, "max_retries": 0},
        }

    def both_succeed(self) -> dict[str, Any]:
        code = self.outputs / "code-generator" / "code"
        review = self.outputs / "code-reviewer" / "review.md"
        writes = [f"mkdir -p '{code}'", f"echo 'def login(): pass' > '{code}/app.py'"]
        # The review quotes the code: it cannot be written before the code is there.
        reviews = [f"mkdir -p '{review.parent}'", f"cat '{code}/app.py' > '{review}'"]
        writes += self.pack("code-generator", "app")
        reviews += self.pack("code-reviewer", "review")
        return self.handoff(writes, reviews)

    def test_two_agents_run_one_after_the_other_and_their_outputs_are_merged(self) -> None:
        events: list[ProgressEvent] = []
        report = orchestrate_parallel(
            self.both_succeed(), launcher="process", timeout=120, on_progress=events.append
        )
        self.assertEqual(report["status"], "success", report)
        self.assertEqual(report["execution_id"], "exec-20251030-1430-abc123")
        statuses = {agent["agent_name"]: agent["status"] for agent in report["agents"]}
        self.assertEqual(statuses, {"code-generator": "success", "code-reviewer": "success"})
        pack = report["merge_result"]["merged_ctxpack"]
        assert pack is not None
        self.assertEqual(
            {node["id"] for node in json.loads(Path(pack).read_text())["nodes"]}, {"app", "review"}
        )
        kinds = [event["event"] for event in events]
        self.assertIn("accepted", kinds)
        self.assertIn("finished", kinds)
        ended = [
            event["task"] for event in events if event["event"] == "task" and event["status"] == "success"
        ]
        self.assertEqual(ended, ["code-generator", "code-reviewer"])
        self.assertEqual(json.loads((self.workspace / "execution_report.json").read_text()), report)
        self.assertEqual(list(Path.cwd().iterdir()), [], "the caller's directory is left as it was")

    def test_the_script_writes_the_report(self) -> None:
        request, output = self.place / "request.json", self.place / "report.json"
        request.write_text(json.dumps(self.both_succeed()))
        command = [sys.executable, str(SCRIPT), "--request", str(request), "--output", str(output)]
        ran = subprocess.run([*command, "--launcher", "process"], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(json.loads(output.read_text())["status"], "success")

    def test_a_failed_agent_fails_the_batch_and_its_dependent_is_skipped(self) -> None:
        request = self.handoff(["exit 1"], ["exit 0"])
        with iterate_parallel(request, launcher="process", timeout=120) as execution:
            list(execution)
        report = execution.report
        self.assertEqual((report["status"], execution.exit_code), ("failure", 1))
        statuses = {agent["agent_name"]: agent["status"] for agent in report["agents"]}
        self.assertEqual(statuses, {"code-generator": "failure", "code-reviewer": "skipped"})

    def test_agents_that_wait_for_each_other_are_refused(self) -> None:
        request = self.both_succeed()
        request["agents"][0]["dependencies"] = ["code-reviewer"]
        with self.assertRaises(InvalidRequest) as caught:
            orchestrate_parallel(request, launcher="process", timeout=120)
        self.assertNotEqual(caught.exception.defects, [])

    def test_a_dry_run_starts_no_agent(self) -> None:
        orchestrate_parallel(self.both_succeed(), launcher="process", dry_run=True, timeout=120)
        self.assertFalse((self.outputs / "code-generator" / "code").exists())

    def assignments(self, *lines: str, **more: Any) -> Assignments:
        context = self.place / "context.md"
        context.write_text("# Write it\n")
        task = {"id": "a", "agent": self.agent("writer", *lines), "context_path": str(context)}
        environment = {"workspace_dir": str(self.workspace)}
        assignments = {"execution_id": "dry-1", "tasks": [task], "environment": environment, **more}
        return cast(Assignments, assignments)

    def test_assignments_that_ask_for_a_dry_run_get_one(self) -> None:
        output = self.place / "report.json"
        for mode in ({"dry_run": True}, {"execution_mode": {"dry_run": True}}):
            report = orchestrate_parallel(self.assignments("touch made", **mode), output=output, timeout=120)
            self.assertEqual((report["status"], report["execution_id"]), ("dry_run", "dry-1"))
            self.assertEqual(json.loads(output.read_text()), report)
            self.assertFalse((self.workspace / "made").exists())

    def test_verification_can_be_turned_off(self) -> None:
        assignments = self.assignments("exit 0", success_criteria={"tests_cmd": "false"})
        report = orchestrate_parallel(assignments, launcher="process", verify=False, timeout=120)
        told = cast(AssignmentsReport, report)
        self.assertEqual((told["status"], told["summary"]["validation"]), ("success", "skipped"))

    def test_a_batch_that_takes_too_long_is_cancelled(self) -> None:
        request = self.handoff(["exec sleep 600"], ["exit 0"])
        with self.assertRaises(ExecutionTimeout) as caught:
            orchestrate_parallel(request, launcher="process", timeout=3)
        report = caught.exception.report
        assert report is not None, caught.exception.stderr
        self.assertEqual((report["status"], caught.exception.exit_code), ("cancelled", 5))

    def test_an_exception_of_the_caller_cancels_the_batch(self) -> None:
        def fail(event: ProgressEvent) -> None:
            if event["event"] == "task" and event["status"] == "running":
                raise LookupError("no such colour")

        request = self.handoff(["exec sleep 600"], ["exit 0"])
        with self.assertRaises(LookupError):
            orchestrate_parallel(request, launcher="process", timeout=120, on_progress=fail)
        report = json.loads((self.workspace / "execution_report.json").read_text())
        self.assertEqual(report["status"], "cancelled")


if __name__ == "__main__":
    unittest.main()
