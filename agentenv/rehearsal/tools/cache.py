"""The cache of built tools: a folder for each, which is either complete or absent.

    <cache>/tools/<platform>/<key>/<program> and manifest.json      what was built
    <cache>/tools/<platform>/<key>.lock                             held while it is being built
    <cache>/tools/<platform>/<key>.building-…                       what a build works in; swept by the next one

The manifest holds size and digest, so that a file cut short by a full disk or a crash is noticed and built again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.rehearsal.tools.errors import CacheUnwritable, DiskFull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANIFEST = "manifest.json"
_POLL_SECONDS = 0.2


def root() -> Path:
    """Return the user's cache folder."""
    if path := os.environ.get("AGENTENV_CACHE"):
        return Path(path).absolute()
    if path := os.environ.get("XDG_CACHE_HOME"):
        return Path(path).absolute() / "agentenv"
    return Path.home() / ".cache" / "agentenv"


def place(key: str) -> Path:
    """Return the folder of a key, whether or not it exists."""
    return root() / "tools" / f"{platform.system().lower()}-{platform.machine().lower()}" / key


def lookup(key: str, name: str) -> Path | None:
    """Return the cached file if it is complete, else None."""
    folder = place(key)
    path = folder / name
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        whole = size(path) == manifest["size"] and digest(path) == manifest["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return path if whole else None


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    if path.is_dir():
        return sum(member.stat().st_size for member in path.rglob("*") if member.is_file())
    return path.stat().st_size


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, or over the names and contents of a folder."""
    if path.is_dir():
        members = sorted(member for member in path.rglob("*") if member.is_file())
        listing = "".join(f"{digest(member)}  {member.relative_to(path).as_posix()}\n" for member in members)
        return hashlib.sha256(listing.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of writing there into tool errors."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise full(path, 0) from error
        # ENOENT too: nothing can be created below a folder such as /proc
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT}:
            raise CacheUnwritable(
                f"the cache folder {root()} cannot be written ({error.strerror}: {error.filename or path}). "
                "Make it writable, or name another one: AGENTENV_CACHE=<folder>"
            ) from error
        raise


def full(path: Path, needed_mb: int) -> DiskFull:
    """Return the error that the disk at that path is full."""
    free = shutil.disk_usage(_existing(path)).free // 2**20
    need = f"and about {needed_mb} MB are needed" if needed_mb else "which was not enough"
    return DiskFull(
        f"the disk is full: {free} MB are free at {_existing(path)}, {need}. Make room, or move what fills it: "
        "AGENTENV_CACHE=<folder> for the tools, GOCACHE=<folder> and GOMODCACHE=<folder> for what the compiler keeps"
    )


def require_room(needed_mb: dict[Path, int]) -> None:
    """Raise early if a file system lacks the space needed at these paths, added up by device."""
    by_device: dict[int, tuple[Path, int]] = {}
    for path, megabytes in needed_mb.items():
        device = _existing(path).stat().st_dev
        by_device[device] = (path, by_device.get(device, (path, 0))[1] + megabytes)
    for path, megabytes in by_device.values():
        if shutil.disk_usage(_existing(path)).free < megabytes * 2**20:
            raise full(path, megabytes)


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def require_writable() -> None:
    """Refuse before a build is announced that could not be kept."""
    with writing(root()):
        place("any").parent.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def locked(key: str, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the key's lock; `waiting` is told, again and again, who holds it meanwhile.

    The lock is the kernel's, on an open file: it is free the moment its holder is gone, however that happened.
    """
    path = place(key).with_name(f"{key}.lock")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting(os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown")
                time.sleep(_POLL_SECONDS)
        with writing(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def workplace(key: str) -> Iterator[Path]:
    """A folder to build in, beside the one it will become; only for whoever holds the key's lock."""
    final = place(key)
    with writing(final):
        for leftover in final.parent.glob(f"{key}.building-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{key}.building-", dir=final.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(key: str, folder: Path, name: str, metadata: dict[str, str]) -> Path:
    """Move a finished build folder to its place in the cache, in one step."""
    final = place(key)
    with writing(final):
        path = folder / name
        # mkdtemp makes folders for one user only, while a cache may well be shared.
        folder.chmod(0o755)
        manifest = {**metadata, "size": size(path), "sha256": digest(path)}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        for target in (path, folder / MANIFEST, folder):
            _sync(target)
        if final.exists():
            # The existing folder is incomplete, or lookup would have returned it.
            shutil.rmtree(final)
        folder.rename(final)
        _sync(final.parent)
    return final / name


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
