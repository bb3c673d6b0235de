"""The npm packages of the console: fetched from the registry when an image or a wheel is built, each by its hash.

`python -m agentenv.service.console.packages [FOLDER]` fetches them. It needs the standard library alone. They are not
in the repository, and no page loads anything from elsewhere.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import io
import os
import shutil
import sys
import tarfile
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

REGISTRY = "https://registry.npmjs.org"
_SECONDS = 60.0
_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Package:
    """A package of the registry: its archive's hash, and the names there and here of the files to keep."""

    name: str
    version: str
    sha512: str
    files: tuple[tuple[str, str], ...]

    @property
    def url(self) -> str:
        """Return the address of its archive."""
        return f"{REGISTRY}/{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"


PACKAGES = (
    Package(
        "@xterm/xterm",
        "6.0.0",
        "TQwDdQGtwwDt+2cgKDLn0IRaSxYu1tSUjgKarSDkUM0ZNiSRXFpjxEsvc/Zgc5kq5omJ+V0a8/kIM2WD3sMOYg==",
        (
            ("package/lib/xterm.mjs", "xterm.js"),
            ("package/css/xterm.css", "xterm.css"),
            ("package/LICENSE", "xterm.LICENSE"),
        ),
    ),
    Package(
        "@xterm/addon-fit",
        "0.11.0",
        "jYcgT6xtVYhnhgxh3QgYDnnNMYTcf8ElbxxFzX0IZo+vabQqSPAjC3c1wJrKB5E19VwQei89QCiZZP86DCPF7g==",
        (("package/lib/addon-fit.mjs", "addon-fit.js"),),
    ),
)
# In an image and in a wheel they are beside this module.
INSTALLED = Path(__file__).with_name("vendor")


class PackageError(Exception):
    """A package cannot be fetched, or is not the pinned one."""


def folder() -> Path:
    """Return the folder of the files, which may not exist: of the installation, else of the user's cache."""
    if INSTALLED.is_dir():
        return INSTALLED
    digest = hashlib.sha256(repr(PACKAGES).encode()).hexdigest()[:12]
    cache = os.environ.get("AGENTENV_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "agentenv"
    return Path(cache).expanduser() / f"console-{digest}"


def ensure() -> Path:
    """Return the folder of the files, fetched into the user's cache where they are missing."""
    existing = folder()
    if not existing.is_dir():
        fetch(existing)
    return existing


def fetch(target: Path) -> None:
    """Fetch the files into a folder, which is complete or absent; raise `PackageError` where that fails."""
    files = {own: content for package in PACKAGES for own, content in _files(package)}
    target.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f"{target.name}.building-", dir=target.parent))
    building.chmod(0o755)
    try:
        for own, content in files.items():
            (building / own).write_bytes(content)
        with contextlib.suppress(OSError):  # another process was faster
            building.rename(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _files(package: Package) -> list[tuple[str, bytes]]:
    """Return the files of a package by the console's names for them."""
    try:
        with urllib.request.urlopen(package.url, timeout=_SECONDS) as response:  # noqa: S310 - a constant https address
            archive = response.read(_MOST_BYTES)
    except OSError as failure:
        raise PackageError(f"{package.url} cannot be fetched: {failure}") from failure
    found = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if not hmac.compare_digest(found, package.sha512):
        raise PackageError(f"{package.url} has the hash {found}, and not the pinned {package.sha512}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        return [(own, _content(members, theirs)) for theirs, own in package.files]


def _content(members: tarfile.TarFile, name: str) -> bytes:
    file = members.extractfile(name)
    if file is None:
        raise PackageError(f"{name} is no file")
    lines = file.read().splitlines(keepends=True)
    # The source maps are not served.
    return b"".join(line for line in lines if not line.startswith(b"//# sourceMappingURL="))


if __name__ == "__main__":
    try:
        fetch(Path(sys.argv[1])) if len(sys.argv) > 1 else ensure()
    except PackageError as error:
        sys.exit(str(error))
