"""Decides which directory holds the bus (`.ce/`) when the caller does not say.

A caller's own directory is never littered: without a `.ce` upward, the bus lives among the user's state, one
for each workspace, so that executions that run at the same time do not wait for each other.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Optional

from terminal_orchestrator.binary import StrPath


def choose_root(root: Optional[StrPath] = None, request: Optional[StrPath] = None) -> str:
    """The directory for `wk --root`, absolute. `request` is the file that is to be run."""
    if root is not None:
        return os.path.abspath(os.fspath(root))
    return _nearest_upward() or _of_the_user(_workspace_of(request))


def _workspace_of(request: Optional[StrPath]) -> Optional[str]:
    """Where the request wants to work; whether that is right, `wk` says."""
    if request is None:
        return None
    try:
        with open(request, "rb") as file:
            told = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    environment = told.get("environment")
    inner = environment.get("workspace_dir") if isinstance(environment, dict) else None
    workspace = told.get("workspace_root", inner)
    return os.path.normpath(workspace) if isinstance(workspace, str) else None


def _nearest_upward() -> Optional[str]:
    try:
        here = Path.cwd()
    except FileNotFoundError:
        # The current directory was removed under us: nothing is upward of it.
        return None
    for directory in (here, *here.parents):
        if (directory / ".ce").is_dir():
            return str(directory)
    return None


def _of_the_user(workspace: Optional[str]) -> str:
    state = os.environ.get("XDG_STATE_HOME", "")
    # The XDG rules: a relative path is to be ignored.
    if not os.path.isabs(state):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    root = os.path.join(state, "watchkeeper")
    if workspace is not None:
        # Readable enough to be found again, and never the same for two workspaces.
        digest = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:12]
        root = os.path.join(root, f"{os.path.basename(workspace)[:40]}-{digest}")
    os.makedirs(root, mode=0o700, exist_ok=True)
    return root
