"""Copy files and folders into a workspace, or out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from agentenv.cli.main import CommandError
from agentenv.client.connect_json import SandboxError
from agentenv.client.sandbox import Entry, Sandbox

_PIECE = 1 << 20
_DEEPEST = 100
_MODE = 0o777


def copy_in(sandbox: Sandbox, source: Path, target: str) -> int:
    """Copy a file or a folder into a workspace; return the number of files."""
    if not source.exists():
        raise CommandError(f"{source} does not exist")
    place = _into(target, source.name, is_folder=_is_folder(sandbox, target))
    if not source.is_dir():
        sandbox.write(place, _pieces(source))
        return 1
    count = 0
    for folder, _, files in os.walk(source):
        below = PurePosixPath(place, *Path(folder).relative_to(source).parts)
        _make_folder(sandbox, str(below))
        for name in files:
            path = Path(folder, name)
            if path.is_file():
                sandbox.write(str(below / name), _pieces(path))
                count += 1
    return count


def copy_out(sandbox: Sandbox, source: str, target: Path) -> int:
    """Copy a file or a folder out of a workspace; return the number of files."""
    entry = sandbox.stat(source)
    place = target / entry.name if target.is_dir() else target
    if entry.kind != "directory":
        _download(sandbox, entry, place)
        return 1
    entries = sandbox.list(entry.path, _DEEPEST)
    place.mkdir(parents=True, exist_ok=True)
    count = 0
    for each in entries:
        # Names come from the workspace: none may lead out of the target.
        below = PurePosixPath(each.path).relative_to(PurePosixPath(entry.path))
        if ".." in below.parts:
            raise CommandError(f"the path {each.path!r} leads out of {source}")
        path = place.joinpath(*below.parts)
        if each.kind == "directory":
            path.mkdir(parents=True, exist_ok=True)
        elif each.kind == "file":
            path.parent.mkdir(parents=True, exist_ok=True)
            _download(sandbox, each, path)
            count += 1
    return count


def _download(sandbox: Sandbox, entry: Entry, path: Path) -> None:
    """Write a file beside its place first, so that a broken connection leaves no half of it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            for data in sandbox.download(entry.path):
                file.write(data)
        unfinished.chmod(entry.mode & _MODE or 0o644)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _into(target: str, name: str, *, is_folder: bool) -> str:
    return str(PurePosixPath(target) / name) if is_folder or target.endswith("/") else target


def _is_folder(sandbox: Sandbox, path: str) -> bool:
    try:
        return sandbox.stat(path).kind == "directory"
    except SandboxError as error:
        if error.code != "not_found":
            raise
        return False


def _make_folder(sandbox: Sandbox, path: str) -> None:
    try:
        sandbox.make_directory(path)
    except SandboxError as error:
        if error.code != "already_exists":
            raise


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
