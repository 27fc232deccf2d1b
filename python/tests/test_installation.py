"""Scenes about `pip install ./python`: into a fresh environment, without an index, and used from there alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from scene import PROJECT, Scene


class Installation(Scene):
    """What somebody has who installs the package."""

    def setUp(self) -> None:
        super().setUp()
        # A copy, so that building leaves nothing in the checkout.
        self.source = self.place / "source"
        made = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "tests")
        shutil.copytree(PROJECT, self.source, ignore=made)

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.place, capture_output=True, text=True, check=False)

    def make_environment(self) -> Path:
        made = self.call(sys.executable, "-m", "venv", str(self.place / "venv"))
        if made.returncode != 0 and "ensurepip" in made.stdout + made.stderr:
            self.skipTest("this Python makes no environments; Debian's package python3-venv adds that")
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.place / "venv" / "bin"

    def install(self, programs: Path, *how: str) -> None:
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--no-input", "--no-index"]
        installed = self.call(*pip, *how, str(self.source))
        self.assertEqual(installed.returncode, 0, installed.stderr)

    def test_an_installation_for_work_on_the_package_leads_to_its_sources(self) -> None:
        programs = self.make_environment()
        self.install(programs, "--editable")
        told = self.call(str(programs / "python"), "-c", "import terminal_orchestrator as t; print(t.__file__)")
        self.assertEqual(told.stdout.strip(), str(self.source / "terminal_orchestrator" / "__init__.py"), told.stderr)

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
