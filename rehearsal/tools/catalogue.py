"""The tools there are: a row each, beside the folder whose `go.mod` and `go.sum` pin what it is built from.

A further tool is a row, and a further set of pinned modules is a folder; nothing else has to know of either.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from rehearsal.tools.errors import UnknownTool
from rehearsal.tools.versions import Version, need

HERE = Path(__file__).parent

_PULUMI = "v3.259.0"


@dataclass(frozen=True)
class Program:
    """A program that is built from its group's modules."""

    name: str
    group: str  # the folder with go.mod and go.sum
    version: str  # what a build yields, and the least that is taken from PATH
    package: str
    stamp: str = ""  # the linker variable that holds the version, where the program wants to be told
    ask: tuple[str, ...] = ("version",)  # the arguments that make it print its version
    minutes: float = 1  # on two cores, modules included
    room_mb: int = 400  # for the program itself and what the linker needs
    go_room_mb: int = 500  # for Go's own caches of modules and objects

    def flags(self) -> tuple[str, ...]:
        """How it is compiled; part of the cache's key."""
        stamp = f" -X {self.stamp}={self.version}" if self.stamp else ""
        return ("-trimpath", "-ldflags", f"-s -w{stamp}")


@dataclass(frozen=True)
class ModuleFile:
    """A file that lies in one of the group's modules as it is: fetched, not built."""

    name: str
    group: str
    version: str
    module: str
    member: str  # its path inside the module
    beside: tuple[str, str]  # the official plugin (kind, name) that brings it along and makes ours unnecessary
    minutes: float = 0.2
    room_mb: int = 1
    go_room_mb: int = 100

    def flags(self) -> tuple[str, ...]:
        """What else the cache's key depends on."""
        return (self.module, self.member)


Recipe = Program | ModuleFile

RECIPES: tuple[Recipe, ...] = (
    Program(
        name="pulumi",
        group="pulumi",
        version=_PULUMI,
        package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        stamp="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
        minutes=5,
        room_mb=600,
        go_room_mb=3200,
    ),
    ModuleFile(
        name="language-python-exec",
        group="pulumi",
        version=_PULUMI,
        module="github.com/pulumi/pulumi/sdk/v3",
        member="python/cmd/pulumi-language-python-exec",
        beside=("language", "python"),
    ),
)


def recipe(name: str) -> Recipe:
    """The row of that name."""
    for row in RECIPES:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in RECIPES)
    raise UnknownTool(f"there is no tool '{name}'; there are {known}")


def folder(row: Recipe) -> Path:
    """Where the row's modules are pinned."""
    return HERE / row.group


def key(row: Recipe) -> str:
    """The name of the row's place in the cache: it changes whenever the outcome might."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((folder(row) / name).read_bytes())
    digest.update("\0".join((row.name, row.version, *row.flags())).encode())
    return f"{row.name}-{row.version}-{digest.hexdigest()[:12]}"


def least_go(row: Recipe) -> Version:
    """The Go language version that the row's go.mod asks for."""
    for line in (folder(row) / "go.mod").read_text(encoding="utf-8").splitlines():
        if line.startswith("go "):
            return need(line)
    raise ValueError(f"{folder(row) / 'go.mod'} has no 'go' line")
