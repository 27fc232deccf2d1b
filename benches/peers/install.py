"""Fetches the peers by their names: from Debian where we may, from PyPI and crates.io into the bench's own folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from system_peers import Make, Ninja, Nq, Parallel, Pueue, TaskSpooler, Xargs

APT = ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends")
PYTHON_PACKAGES = ("snakemake", "luigi", "doit", "hyperqueue")


def install(tools: Path) -> None:
    """Whatever cannot be had is told, and its row says so: a benchmark without it is still one."""
    tools.mkdir(parents=True, exist_ok=True)
    wanted = [tool for tool in (Xargs(), Make(), Ninja("true"), Parallel(), TaskSpooler(), Nq()) if tool.missing()]
    may_use_apt = shutil.which("apt-get") is not None and os.geteuid() == 0
    # One by one: apt-get installs nothing at all if it does not know one of several.
    for tool in wanted if may_use_apt else []:
        attempt([*APT, tool.package])
    venv = tools / "venv"
    if not (venv / "bin/pip").exists():
        attempt([sys.executable, "-m", "venv", str(venv)])
    for package in PYTHON_PACKAGES:
        attempt([str(venv / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", package])
    if Pueue(tools).missing() and may_use_apt:
        attempt([*APT, "pueue"])
    if Pueue(tools).missing() and shutil.which("cargo"):
        attempt(["cargo", "install", "--quiet", "--locked", "--root", str(tools / "pueue"), "pueue"])


def attempt(argv: list[str]) -> None:
    print(f"install: {' '.join(argv)}", file=sys.stderr)
    try:
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"note: {error}", file=sys.stderr)
