"""What the scenes share: a directory of their own, an environment of their own, and the stand-in `wk`.

Imported first by every test, so that the package of this checkout is the one that is tested.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

TESTS = Path(__file__).resolve().parent
PROJECT = TESTS.parent
SCRIPT = PROJECT / "terminal_orchestrator" / "atools" / "orchestrate_parallel.py"
sys.path.insert(0, str(PROJECT))


class Scene(unittest.TestCase):
    """A test with a place, in which nothing but what it is told surrounds the package."""

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory(prefix="wk-scene-")
        self.addCleanup(place.cleanup)
        self.place = Path(place.name).resolve()
        self.workspace = self.make_dir("workspace")
        self.root = self.make_dir("root")
        self.temporary = self.make_dir("temporary")
        self.wk = self.make_program("wk", TESTS / "stand_in_wk.py")
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        surroundings = {
            **kept,
            "HOME": str(self.make_dir("user")),
            "TMPDIR": str(self.temporary),
            "XDG_STATE_HOME": str(self.place / "state"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.enterContext_(mock.patch.dict(os.environ, surroundings, clear=True))
        self.enterContext_(mock.patch.object(tempfile, "tempdir", str(self.temporary)))

    def enterContext_(self, context: Any) -> None:  # noqa: N802 - unittest's own came with Python 3.11
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def listen_to_ctrl_c(self) -> None:
        """A shell that starts the tests in the background has Ctrl-C ignored, here and in what is started."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def play(self, scene: str) -> None:
        """Tells the stand-in which scene to play."""
        os.environ["STAND_IN_SCENE"] = scene

    def set_limit(self, name: str, seconds: float) -> None:
        """Shortens one of the package's patiences: the scene goes through it to the end."""
        self.enterContext_(mock.patch(f"terminal_orchestrator.execution.{name}", seconds))

    def make_dir(self, name: str) -> Path:
        directory = self.place / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def make_program(self, name: str, script: Path) -> Path:
        """A program that runs a Python script with the Python that runs this."""
        program = self.make_dir("bin") / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{script}" "$@"\n')
        program.chmod(0o755)
        return program

    def request(self, **changes: Any) -> dict[str, Any]:
        """A request with two agents, one after the other."""
        first = {"agent_name": "code-generator", "agent_path": "agents/code-generator"}
        second = {"agent_name": "code-reviewer", "agent_path": "agents/code-reviewer"}
        return {
            "execution_id": "exec-001",
            "workspace_root": str(self.workspace),
            "agents": [
                {**first, "task": {"description": "write"}, "dependencies": [], "timeout": 60},
                {**second, "task": {"description": "review"}, "dependencies": ["code-generator"]},
            ],
            "merge_strategy": {"type": "ctxpack_union"},
            "execution_options": {"parallel_limit": 4},
            **changes,
        }

    def request_file(self, **changes: Any) -> Path:
        path = self.place / "execution_request.json"
        path.write_text(json.dumps(self.request(**changes)))
        return path

    def calls(self) -> list[dict[str, Any]]:
        """Every call of the stand-in, with its process id and its arguments."""
        log = self.root / ".ce" / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()]

    def assert_nothing_is_left(self) -> None:
        """No process of the stand-in, not even an unreaped one, and no private file."""
        for call in self.calls():
            with self.assertRaises(ProcessLookupError, msg=f"still there: {call}"):
                os.kill(call["pid"], 0)
        self.assertEqual(sorted(path.name for path in self.temporary.iterdir()), [])
