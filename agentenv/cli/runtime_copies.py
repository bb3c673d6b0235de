"""Copies of the runtimes that nodes install: where a mirror has them, and how they get there.

A copy is verified by its pinned digest before it is stored, and the digest is stored with it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import httpx2
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError

from agentenv.config import Settings
from agentenv.core.nodes.mirrors import RuntimeFile, runtime_bucket

Progress = Callable[[RuntimeFile, int], None]  # takes the bytes that were downloaded or uploaded since the last call

_BUCKET = re.compile(r"https://(?P<bucket>[a-z0-9.-]+)\.s3\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?P<path>/[^?#]*)?")
_MISSING = {"404", "NoSuchBucket", "NoSuchKey"}
_DIGEST = "digest"
_SECONDS = 30
_PIECE = 1 << 20


class CopyError(Exception):
    """A runtime cannot be copied."""


@dataclass(frozen=True)
class Location:
    """The bucket of a mirror, its region, and the path of the mirror in it."""

    bucket: str
    region: str
    path: str = ""
    created: bool = True  # whether the stack creates it

    def key(self, file: RuntimeFile) -> str:
        """Return the key of a copy."""
        return f"{self.path}/{file.path}".lstrip("/")


def location(settings: Settings, account: str) -> Location | None:
    """Return the bucket of an environment's mirror; None without one, or if its address is not that of a bucket."""
    mirrors = settings.network.mirrors
    if mirrors.bucket:
        return Location(runtime_bucket(settings.environment, account), settings.region)
    address = _BUCKET.fullmatch(mirrors.files or "")
    if address is None:
        return None
    return Location(address["bucket"], address["region"], (address["path"] or "").strip("/"), created=False)


def is_missing(error: ClientError) -> bool:
    """Return whether S3 says that a bucket or an object does not exist."""
    return error.response.get("Error", {}).get("Code") in _MISSING


class Store(Protocol):
    """A mirror that is filled."""

    def has(self, file: RuntimeFile) -> bool:
        """Return whether it has the file with the pinned digest."""
        ...

    def put(self, file: RuntimeFile, content: Path) -> None:
        """Store a verified file."""
        ...


@dataclass(frozen=True)
class Folder:
    """A folder with the layout of a mirror, to carry to a network without internet access."""

    root: Path

    def has(self, file: RuntimeFile) -> bool:
        """Return whether it has the file with the pinned digest."""
        path = self.root / file.path
        return path.is_file() and _digest_of(path, file) == file.digest

    def put(self, file: RuntimeFile, content: Path) -> None:
        """Move a verified file into the folder."""
        path = self.root / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(content, path)


@dataclass(frozen=True)
class Bucket:
    """The bucket of a mirror."""

    location: Location
    s3: Any
    progress: Progress

    def has(self, file: RuntimeFile) -> bool:
        """Return whether it has the file, stored with the pinned digest."""
        try:
            found = self.s3.head_object(Bucket=self.location.bucket, Key=self.location.key(file))
        except ClientError as error:
            if not is_missing(error):
                raise
            return False
        return found["Metadata"].get(_DIGEST) == file.digest

    def put(self, file: RuntimeFile, content: Path) -> None:
        """Upload a verified file, in parts, with its digest."""
        self.s3.upload_file(
            str(content),
            self.location.bucket,
            self.location.key(file),
            ExtraArgs={"Metadata": {_DIGEST: file.digest}},
            Callback=partial(self.progress, file),
        )


def copy(file: RuntimeFile, store: Store, source: str | None, progress: Progress) -> bool:
    """Copy a file unless the store has it, from the public address or another mirror; return whether it was copied."""
    try:
        if store.has(file):
            return False
        with tempfile.TemporaryDirectory() as folder:
            content = Path(folder) / "content"
            with _opened(file, source) as pieces, content.open("wb") as output:
                for piece in pieces:
                    output.write(piece)
                    progress(file, len(piece))
            if (digest := _digest_of(content, file)) != file.digest:
                raise CopyError(f"{_address(file, source)} has the digest {digest}, and not the pinned {file.digest}")
            store.put(file, content)
    except (ClientError, BotoCoreError, S3UploadFailedError, httpx2.HTTPError, OSError) as error:
        raise CopyError(f"{_address(file, source)}: {error}") from None
    return True


def _address(file: RuntimeFile, source: str | None) -> str:
    return file.address if source is None else f"{source.rstrip('/')}/{file.path}"


@contextmanager
def _opened(file: RuntimeFile, source: str | None) -> Iterator[Iterator[bytes]]:
    """Open a file at the public address, or in another mirror, which is an address or a folder."""
    address = _address(file, source)
    if address.startswith(("https://", "http://")):
        with httpx2.stream("GET", address, follow_redirects=True, timeout=_SECONDS) as response:
            response.raise_for_status()
            yield response.iter_bytes(_PIECE)
        return
    with Path(address).open("rb") as content:
        yield iter(lambda: content.read(_PIECE), b"")


def _digest_of(path: Path, file: RuntimeFile) -> str:
    algorithm = file.digest.partition(":")[0]
    with path.open("rb") as content:
        return f"{algorithm}:{hashlib.file_digest(content, algorithm).hexdigest()}"
