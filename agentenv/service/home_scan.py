"""Looks how much there is in a home: lists folders, reads no file, and stays where it was sent.

Where a home's owner could put a link in its way, none is followed, and each step down is opened by the step before.
"""

from __future__ import annotations

import os
import random
import stat
from contextlib import closing
from pathlib import Path

from agentenv.core.workspaces.home_sizes import Folder, Size, measure_home

BLOCK = 512  # what st_blocks counts in, whatever the file system

PathParts = tuple[str, ...]


def scan_home(homes: Path, path: str | None, most: int) -> Size | None:
    """What is below the folder of an access point; None where there is none, or its path leads elsewhere."""
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

        def look(inside: PathParts) -> Folder[PathParts]:
            return _folder(home, inside, seen)

        return measure_home(PathParts(), look, random.Random(path), most)  # noqa: S311 - a sample
    finally:
        os.close(home)


def _open(base: int, parts: PathParts) -> int:
    """A folder below an open one, one step at a time and through no link."""
    here = os.dup(base)
    for part in parts:
        try:
            inside = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
        finally:
            os.close(here)
        here = inside
    return here


def _folder(home: int, parts: PathParts, seen: set[int]) -> Folder[PathParts]:
    """One folder; what cannot be looked at, or went meanwhile, holds nothing."""
    try:
        here = _open(home, parts)
    except OSError:
        return Folder(0, 1, ())
    own, entries = 0, 0
    inside: list[PathParts] = []
    try:
        with closing(os.scandir(here)) as found:
            for entry in found:
                entries += 1
                try:
                    about = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                # A file with several names is there once.
                if about.st_nlink > 1 and not stat.S_ISDIR(about.st_mode):
                    if about.st_ino in seen:
                        continue
                    seen.add(about.st_ino)
                own += about.st_blocks * BLOCK
                if stat.S_ISDIR(about.st_mode):
                    inside.append((*parts, entry.name))
    except OSError:
        return Folder(own, entries + 1, inside)
    finally:
        os.close(here)
    return Folder(own, entries + 1, inside)
