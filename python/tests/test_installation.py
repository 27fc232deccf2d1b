"""A scene about `pip install ./python`: into a fresh environment, and used from there alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from scene import PROJECT, Scene

PLACE_OF_PIP = ("HOME", "PIP_", "SSL_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy")
"""How an index is reached: what pip finds in the environment, and its settings at home."""

BUILD_TOOLS = "setuptools>=61"
"""What `pyproject.toml` requires; the scene below holds the two together."""

INDEX_SECONDS_MAX = 60.0
"""How long an index may take to hand out the build tools before it counts as out of reach."""


class Installation(Scene):
    """What somebody has who installs the package."""

    def setUp(self) -> None:
        around = {name: value for name, value in os.environ.items() if name.startswith(PLACE_OF_PIP)}
        super().setUp()
        os.environ.update(around)
        # A copy, so that building leaves nothing in the checkout.
        self.source = self.place / "source"
        made = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "tests")
        shutil.copytree(PROJECT, self.source, ignore=made)

    def call(self, *command: str, limit: float | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.place, capture_output=True, text=True, check=False, timeout=limit
        )

    def make_environment(self) -> Path:
        made = self.call(sys.executable, "-m", "venv", str(self.place / "venv"))
        if made.returncode != 0 and "ensurepip" in made.stdout + made.stderr:
            self.skipTest("this Python makes no environments; Debian's package python3-venv adds that")
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.place / "venv" / "bin"

    def why_no_index(self, programs: Path) -> str | None:
        """Why the build tools cannot be had from an index, or nothing where they can."""
        pip = [str(programs / "python"), "-m", "pip", "--no-input", "--timeout", "10", "--retries", "1"]
        # Older build tools ask for the second one while they build.
        wanted = ["download", "--quiet", "--dest", str(self.place / "tools"), BUILD_TOOLS, "wheel"]
        try:
            tried = self.call(*pip, *wanted, limit=INDEX_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return f"no answer within {INDEX_SECONDS_MAX:.0f} s"
        if tried.returncode == 0:
            return None
        return (tried.stderr.strip() or f"pip ended with {tried.returncode}").splitlines()[-1]

    def install(self, programs: Path) -> None:
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]
        why = self.why_no_index(programs)
        if why is None:
            # What was handed out just now is not asked for again: an index may be gone the next moment.
            pip += ["--no-index", "--find-links", str(self.place / "tools")]
        else:
            # Without an index: with what the environment has.
            pip += ["--no-build-isolation"]
        installed = self.call(*pip, str(self.source))
        if installed.returncode != 0 and why is not None:
            self.skipTest(f"no build tools: none in this environment, and none from an index: {why}")
        self.assertEqual(installed.returncode, 0, installed.stderr)

    def test_the_build_tools_are_those_that_the_package_requires(self) -> None:
        self.assertIn(f'requires = ["{BUILD_TOOLS}"]', (self.source / "pyproject.toml").read_text())

    def test_an_installed_package_works_from_anywhere(self) -> None:
        programs = self.make_environment()
        self.install(programs)
        request, output = self.request_file(), self.place / "report.json"
        program = (
            "import pathlib, sys, terminal_orchestrator\n"
            "from terminal_orchestrator.atools import orchestrate_parallel\n"
            "package = pathlib.Path(terminal_orchestrator.__file__).resolve().parent\n"
            "assert pathlib.Path(sys.prefix).resolve() in package.parents, package\n"
            "assert (package / 'py.typed').is_file()\n"
            "print(orchestrate_parallel(sys.argv[1], wk=sys.argv[2], root=sys.argv[3])['status'])\n"
        )
        ran = self.call(str(programs / "python"), "-c", program, str(request), str(self.wk), str(self.root))
        self.assertEqual((ran.stdout, ran.stderr), ("success\n", ""))
        arguments = ["--request", str(request), "--output", str(output), "--wk", str(self.wk)]
        ran = self.call(str(programs / "orchestrate-parallel"), *arguments)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertTrue(output.is_file())


if __name__ == "__main__":
    unittest.main()
