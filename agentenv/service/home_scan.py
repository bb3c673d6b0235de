"""Measure the size of a home: list folders, read no file, and stay within the given folder.

The owner of a home could place symbolic links in it, so none is followed: each folder is opened relative to its parent.
"""

from __future__ import annotations

import os
import random
import stat
from contextlib import closing
from pathlib import Path

from agentenv.core.workspaces.home_sizes import Folder, Size, measure_home

BLOCK = 512  # the unit of st_blocks on every file system

PathParts = tuple[str, ...]


def scan_home(homes: Path, path: str | None, most: int) -> Size | None:
    """Return the size below the folder of an access point; None where it is missing or its path leads elsewhere."""
    parts = tuple(part for part in (path or "").split("/") if part)
    if not parts or any(part in {".", ".."} for part in parts):
        return None
    mounted = os.open(homes, os.O_RDONLY | os.O_DIRECTORY)
    try:
        home = _open(mounted, parts)
    except OSError:
        return None
    finally:
        os.close(mounted)
    try:
        seen: set[int] = set()

        def read_folder(folders: PathParts) -> Folder[PathParts]:
            return _folder(home, folders, seen)

        return measure_home(PathParts(), read_folder, random.Random(path), most)  # noqa: S311 - a sample
    finally:
        os.close(home)


def _open(base: int, parts: PathParts) -> int:
    """Open a folder below an open one, one step at a time and through no link."""
    descriptor = os.dup(base)
    for part in parts:
        try:
            folders = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = folders
    return descriptor


def _folder(home: int, parts: PathParts, seen: set[int]) -> Folder[PathParts]:
    """Return one folder; one that cannot be read, or was deleted meanwhile, counts as empty."""
    try:
        descriptor = _open(home, parts)
    except OSError:
        return Folder(0, 1, ())
    own, entries = 0, 0
    folders: list[PathParts] = []
    try:
        with closing(os.scandir(descriptor)) as listing:
            for entry in listing:
                entries += 1
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                # A file with several hard links counts once.
                if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                    if status.st_ino in seen:
                        continue
                    seen.add(status.st_ino)
                own += status.st_blocks * BLOCK
                if stat.S_ISDIR(status.st_mode):
                    folders.append((*parts, entry.name))
    except OSError:
        return Folder(own, entries + 1, folders)
    finally:
        os.close(descriptor)
    return Folder(own, entries + 1, folders)
