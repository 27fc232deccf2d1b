"""Packs this project for pip, with nothing but the standard library: `pip install ./python` needs no index.

A build backend as PEP 517 and PEP 660 describe it. It reads the few fields of `pyproject.toml` that there are; each
stands on one line, so that Python 3.9, which has no reader of TOML, can read them too.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Optional

PROJECT = Path(__file__).resolve().parent
PACKAGE = "terminal_orchestrator"
MADE_AT = (2020, 1, 1, 0, 0, 0)
"""The same files make the same wheel, whenever it is made."""

Settings = Optional[dict[str, Any]]


def section(name: str) -> dict[str, Any]:
    """The fields of one table of `pyproject.toml`."""
    fields: dict[str, Any] = {}
    table = ""
    for line in (PROJECT / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            table = line.strip().strip("[]")
        elif table == name and "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            fields[key.strip()] = ast.literal_eval(value.strip())
    return fields


def stem() -> str:
    """How the files are called that are made: by name and version."""
    project = section("project")
    return f"{project['name'].replace('-', '_')}-{project['version']}"


def metadata() -> str:
    """What an index and `pip show` tell of the package."""
    project = section("project")
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (PROJECT / project["readme"]).read_text(encoding="utf-8")


def sources() -> list[Path]:
    """The package's own files, below the project."""
    found = (path.relative_to(PROJECT) for path in (PROJECT / PACKAGE).rglob("*"))
    return sorted(path for path in found if path.suffix == ".py" or path.name == "py.typed")


def write_wheel(folder: str, contents: dict[str, bytes]) -> str:
    """Writes the contents and what a wheel has to say about itself; its file name."""
    info = f"{stem()}.dist-info"
    scripts = "".join(f"{name} = {place}\n" for name, place in section("project.scripts").items())
    wheel = "Wheel-Version: 1.0\nGenerator: packaging_in_tree\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents = {
        **contents,
        f"{info}/METADATA": metadata().encode(),
        f"{info}/WHEEL": wheel.encode(),
        f"{info}/entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
    }
    record = ""
    for name, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    file_name = f"{stem()}-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder) / file_name, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, MADE_AT)
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return file_name


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: Optional[str] = None
) -> str:
    """What `pip install ./python` asks for."""
    return write_wheel(wheel_directory, {path.as_posix(): (PROJECT / path).read_bytes() for path in sources()})


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: Optional[str] = None
) -> str:
    """What `pip install -e ./python` asks for: only where the package lies."""
    return write_wheel(wheel_directory, {f"{PACKAGE}.pth": f"{PROJECT}\n".encode()})


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """What whoever hands the package on asks for."""
    file_name = f"{stem()}.tar.gz"
    beside = [Path("pyproject.toml"), Path("README.md"), Path(__file__).resolve().relative_to(PROJECT)]
    with tarfile.open(Path(sdist_directory) / file_name, "w:gz") as archive:
        for path in [*beside, *sources()]:
            archive.add(PROJECT / path, arcname=f"{stem()}/{path.as_posix()}")
    return file_name
