"""Remove everything in a home: `python -m agentenv.service.home_emptying DIR`.

It runs in a Job of its own (`agentenv/core/service/home_emptying.py` defines it), before the access point of the home
is deleted. It may be killed and repeated, and fails while anything is left.
"""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# A removal waits for the file system some milliseconds, and needs no processor.
THREADS = 16
_OWN = 0o700
# Deeper folders are moved up first: a path of more than 4,096 bytes cannot be given to the kernel.
DEEPEST = 8


def empty(root: Path) -> int:
    """Remove all entries below a folder without following links; return their number."""
    removed = 0
    with ThreadPoolExecutor(THREADS) as pool:
        pending = [root]
        while pending:
            folders, others = _entries(pending[-1])
            removed += len(list(pool.map(_remove, others)))
            if folders:
                deep = len(pending[-1].parts) - len(root.parts) >= DEEPEST
                pending += [folder.rename(root / uuid.uuid4().hex) for folder in folders] if deep else folders
                continue
            folder = pending.pop()
            if folder != root:
                folder.rmdir()
                removed += 1
    return removed


def _entries(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders in a folder, and its other entries."""
    # Its owner may have closed it to itself.
    with contextlib.suppress(PermissionError):
        folder.chmod(_OWN)
    folders: list[Path] = []
    others: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else others).append(Path(entry.path))
    return folders, others


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> int:
    """Empty a folder and print what was removed; the exit code is 1 if anything is left."""
    root = Path(*arguments[:1])
    removed = empty(root)
    left = len([*root.iterdir()])
    sys.stdout.write(f"removed {removed} entries, {left} are left\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
