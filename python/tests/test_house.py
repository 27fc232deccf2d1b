"""Rules of the package that no type checker knows."""

from __future__ import annotations

import ast
import sys
import unittest
from pathlib import Path

from scene import PROJECT

PACKAGE = PROJECT / "terminal_orchestrator"


def modules_of(path: Path) -> set[str]:
    """The first names of whatever a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.split(".")[0])
    return found


class House(unittest.TestCase):
    """What the package promises to whoever installs it."""

    @unittest.skipUnless(hasattr(sys, "stdlib_module_names"), "Python 3.9 does not list its own modules")
    def test_the_standard_library_is_enough(self) -> None:
        ours = {*sys.stdlib_module_names, PACKAGE.name}
        for path in [*PACKAGE.rglob("*.py"), PROJECT / "packaging_in_tree.py"]:
            self.assertEqual(sorted(modules_of(path) - ours), [], path)

    def test_files_that_the_project_names_are_there(self) -> None:
        project = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
        named = [word for word in project.replace('"', " ").split() if word.startswith("tests/test_")]
        self.assertTrue(named)
        for name in named:
            self.assertTrue((PROJECT / name).is_file(), name)


if __name__ == "__main__":
    unittest.main()
