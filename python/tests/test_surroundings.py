"""Scenes about what is found around a caller: the binary, the bus, and a package that keeps to the house."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from scene import PROJECT, Scene
from terminal_orchestrator import WatchkeeperNotFound, orchestrate_parallel
from terminal_orchestrator.binary import find_wk
from terminal_orchestrator.bus_root import choose_root

FILE_LINES_MAX = 500


class TheBinary(Scene):
    """Where `wk` is looked for."""

    def setUp(self) -> None:
        super().setUp()
        self.checkout = self.make_dir("checkout")
        (self.checkout / "Cargo.toml").touch()
        self.enterContext_(mock.patch("terminal_orchestrator.binary.CHECKOUT", self.checkout))
        os.environ["PATH"] = str(self.make_dir("elsewhere"))

    def put_program(self, name: str) -> str:
        program = self.place / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        return str(program)

    def test_each_place_is_preferred_to_those_after_it(self) -> None:
        debug = self.put_program("checkout/target/debug/wk")
        self.assertEqual(find_wk(), debug)
        release = self.put_program("checkout/target/release/wk")
        self.assertEqual(find_wk(), release)
        on_path = self.put_program("elsewhere/wk")
        self.assertEqual(find_wk(), on_path)
        os.environ["WK_BINARY"] = named = self.put_program("named/wk")
        self.assertEqual(find_wk(), named)
        given = self.put_program("given/wk")
        self.assertEqual(find_wk(Path(given)), given)

    def test_without_any_it_is_said_how_to_get_one(self) -> None:
        with self.assertRaises(FileNotFoundError) as caught:
            orchestrate_parallel(self.request())
        self.assertIsInstance(caught.exception, WatchkeeperNotFound)
        for remedy in ("cargo install", 'wk="path/to/wk"', "WK_BINARY"):
            self.assertIn(remedy, str(caught.exception))

    def test_what_is_named_is_never_replaced_by_another(self) -> None:
        self.put_program("elsewhere/wk")
        with self.assertRaisesRegex(WatchkeeperNotFound, "argument `wk` names `/nowhere/wk`"):
            find_wk("/nowhere/wk")
        os.environ["WK_BINARY"] = "/nowhere/wk"
        with self.assertRaisesRegex(WatchkeeperNotFound, "variable WK_BINARY names `/nowhere/wk`"):
            find_wk()

    def test_a_build_beside_an_installed_package_is_not_ours(self) -> None:
        (self.checkout / "Cargo.toml").unlink()
        self.put_program("checkout/target/release/wk")
        with self.assertRaises(WatchkeeperNotFound):
            find_wk()


class TheBus(Scene):
    """Where the bus lives."""

    def enter(self, directory: Path) -> None:
        self.addCleanup(os.chdir, Path.cwd())
        os.chdir(directory)

    def test_a_bus_upward_is_used(self) -> None:
        (self.root / ".ce").mkdir()
        self.enter(self.make_dir("root/deep/below"))
        self.assertEqual(choose_root(), str(self.root))

    def test_a_root_that_is_given_wins(self) -> None:
        (self.root / ".ce").mkdir()
        self.enter(self.root)
        self.assertEqual(choose_root("other"), str(self.root / "other"))

    def test_a_call_from_anywhere_leaves_nothing_behind_there(self) -> None:
        here = self.make_dir("here")
        self.enter(here)
        orchestrate_parallel(self.request(), wk=self.wk)
        self.assertEqual(list(here.iterdir()), [])
        buses = list((self.place / "state" / "watchkeeper").glob("*/.ce"))
        self.assertEqual(len(buses), 1, buses)

    def test_each_workspace_has_a_bus_of_its_own(self) -> None:
        self.enter(self.make_dir("here"))

        def root_for(**request: object) -> str:
            path = self.place / "request.json"
            path.write_text(json.dumps(request))
            return choose_root(None, path)

        first, second = root_for(workspace_root="/w/exec-1"), root_for(workspace_root="/w/exec-2")
        self.assertNotEqual(first, second)
        self.assertEqual(first, root_for(workspace_root="/w/exec-1/"))
        self.assertEqual(second, root_for(environment={"workspace_dir": "/w/exec-2"}))
        self.assertTrue(os.path.basename(first).startswith("exec-1-"))

    def test_without_a_state_directory_of_the_environment_the_usual_one_is_used(self) -> None:
        self.enter(self.make_dir("here"))
        usual = self.place / "user" / ".local" / "state" / "watchkeeper"
        for unusable in ("", "relative/state"):
            os.environ["XDG_STATE_HOME"] = unusable
            self.assertEqual(choose_root(), str(usual))

    def test_a_current_directory_that_was_removed_is_no_obstacle(self) -> None:
        gone = self.make_dir("gone")
        self.enter(gone)
        gone.rmdir()
        self.assertEqual(choose_root(), str(self.place / "state" / "watchkeeper"))


class TheReadme(Scene):
    """What the README shows."""

    def test_its_examples_run(self) -> None:
        text = (PROJECT / "README.md").read_text()
        examples = [part.split("```")[0] for part in text.split("```python\n")[1:]]
        self.assertEqual(len(examples), 2)
        os.environ["WK_BINARY"] = str(self.wk)
        os.environ["PYTHONPATH"] = str(PROJECT)
        program = "\n".join(examples)
        ran = subprocess.run(
            [sys.executable, "-c", program], cwd=self.place, capture_output=True, text=True, check=True
        )
        told = [*["code-generator running"] * 2, "code-generator success", "success"]
        self.assertEqual((ran.stdout.splitlines(), ran.stderr), (told, ""))


class TheHouse(unittest.TestCase):
    """What holds for every file of the package."""

    def sources(self) -> dict[Path, ast.Module]:
        found = {path: ast.parse(path.read_text()) for path in sorted(PROJECT.rglob("*.py"))}
        self.assertGreater(len(found), 10)
        return found

    def test_every_file_says_first_what_it_is_for_and_stays_short(self) -> None:
        for path, tree in self.sources().items():
            with self.subTest(path.relative_to(PROJECT)):
                self.assertIsNotNone(ast.get_docstring(tree), "open the file with what it is for")
                self.assertLessEqual(len(path.read_text().splitlines()), FILE_LINES_MAX)

    @unittest.skipIf(sys.version_info < (3, 10), "the standard library cannot be listed before Python 3.10")
    def test_the_package_needs_the_standard_library_alone(self) -> None:
        known = {*sys.stdlib_module_names, "terminal_orchestrator"}
        for path, tree in self.sources().items():
            if "terminal_orchestrator" not in path.relative_to(PROJECT).parts:
                continue
            for node in ast.walk(tree):
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                for name in names:
                    self.assertIn(name.split(".", maxsplit=1)[0], known, f"{path}: {name}")

    def test_the_name_means_the_function_in_whatever_order_it_is_imported(self) -> None:
        for first in ("terminal_orchestrator", "terminal_orchestrator.atools.orchestrate_parallel"):
            program = (
                f"import {first}\n"
                "from terminal_orchestrator.atools import orchestrate_parallel\n"
                "import terminal_orchestrator.atools.orchestrate_parallel\n"
                "from terminal_orchestrator.atools import orchestrate_parallel as again\n"
                "assert callable(orchestrate_parallel) and again is orchestrate_parallel\n"
            )
            subprocess.run([sys.executable, "-c", program], cwd=PROJECT, check=True)


if __name__ == "__main__":
    unittest.main()
