"""The files of the console in memory, compressed once, below a path with the hash of all of them."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

STATIC = Path(__file__).with_name("static")
INDEX = "index.html"
# In the index it stands for the path of the other files.
ASSETS = "{assets}"
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class Asset:
    """A file: its content as it is and compressed, and its media type."""

    content: bytes
    compressed: bytes
    media_type: str


@dataclass(frozen=True)
class Assets:
    """All files by name, and the index."""

    prefix: str
    files: Mapping[str, Asset]
    index: Asset
    has_terminal: bool


@cache
def assets_of(vendor: Path) -> Assets:
    """Return the console's own files and those of packages, which may be missing."""
    paths = {path.name: path for folder in (STATIC, vendor) if folder.is_dir() for path in sorted(folder.iterdir())}
    index = paths.pop(INDEX).read_text(encoding="utf-8")
    contents = {name: path.read_bytes() for name, path in paths.items() if path.suffix in _TYPES}
    digest = hashlib.sha256(index.encode())
    for name, content in sorted(contents.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    prefix = f"/assets/{digest.hexdigest()[:16]}/"
    files = {name: _asset(content, _TYPES[paths[name].suffix]) for name, content in contents.items()}
    page = _asset(index.replace(ASSETS, prefix).encode(), "text/html; charset=utf-8")
    return Assets(prefix, files, page, has_terminal="xterm.js" in files)


def _asset(content: bytes, media_type: str) -> Asset:
    return Asset(content, gzip.compress(content, mtime=0), media_type)
