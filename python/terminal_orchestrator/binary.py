"""Finds the `wk` binary, or says how to get it. Runs nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Optional, Union

from terminal_orchestrator.errors import WatchkeeperNotFound

StrPath = Union[str, "os.PathLike[str]"]

WK_BINARY = "WK_BINARY"
"""The environment variable that names the binary."""

CHECKOUT = Path(__file__).resolve().parents[2]
"""The directory that holds `python/` where the package is used from a checkout."""


def find_wk(wk: Optional[StrPath] = None) -> str:
    """The path of `wk`: as given, or from WK_BINARY, the PATH, or a build of the checkout.

    What is named explicitly must be there; it is never replaced by another one.
    """
    if wk is not None:
        return _named(os.fspath(wk), "the argument `wk`")
    from_environment = os.environ.get(WK_BINARY)
    if from_environment:
        return _named(from_environment, f"the environment variable {WK_BINARY}")
    found = shutil.which("wk")
    if found:
        return os.path.abspath(found)
    if (CHECKOUT / "Cargo.toml").is_file():
        for profile in ("release", "debug"):
            built = shutil.which(str(CHECKOUT / "target" / profile / "wk"))
            if built:
                return built
    raise WatchkeeperNotFound(
        f"found no `wk`: not in {WK_BINARY}, not on the PATH, not built in a checkout around this package"
        "\nhint: `cargo install --path .` in a checkout of watchkeeper puts it on the PATH;"
        f' or pass wk="path/to/wk", or set {WK_BINARY} to it'
    )


def _named(name: str, by: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise WatchkeeperNotFound(
            f"{by} names `{name}`, which is no program that can be run"
            "\nhint: `cargo install --path .` in a checkout of watchkeeper makes one;"
            " or leave the name out to have `wk` looked for"
        )
    return os.path.abspath(found)
