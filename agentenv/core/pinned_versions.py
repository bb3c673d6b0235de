"""The versions and public addresses of everything that is not ours, from the one file that pins them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any

# The architectures of nodes, as packagers and as the kernel call them.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
DIGEST = "sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}"


@dataclass(frozen=True)
class Source:
    """The public address of something, and its version."""

    address: str
    version: str


@dataclass(frozen=True)
class Runtime:
    """A runtime that nodes install: the addresses to try, in order, and its digest for each architecture.

    Addresses have fields for the architecture; `MACHINES` has their values. A digest is such as `sha512:…`.
    """

    addresses: tuple[str, ...]
    version: str
    digests: Mapping[str, str]


@dataclass(frozen=True)
class Manifests:
    """Files of a release below one address, which may be a folder instead."""

    address: str
    version: str
    definitions: tuple[str, ...]
    roles: tuple[str, ...]


@dataclass(frozen=True)
class Releases:
    """The pinned versions, digests and addresses."""

    addons: Mapping[str, Mapping[str, str]]
    standard_support: Mapping[str, date]
    node_image: str
    charts: Mapping[str, Source]
    manifests: Mapping[str, Manifests]
    images: Mapping[str, str]
    runtimes: Mapping[str, Runtime]


@cache
def releases() -> Releases:
    """The pinned releases."""
    read = tomllib.loads(files("agentenv.core").joinpath("pinned_versions.toml").read_text(encoding="utf-8"))
    return Releases(
        addons=read["kubernetes"],
        standard_support=read["standard-support"],
        node_image=read["node-image"]["alias"],
        charts=_sources(read["charts"]),
        manifests={
            name: Manifests(row["address"], row["version"], tuple(row["definitions"]), tuple(row["roles"]))
            for name, row in read["manifests"].items()
        },
        images=read["images"],
        runtimes={
            name: verified(name, Runtime((row["address"],), row["version"], row["digests"]))
            for name, row in read["runtimes"].items()
        },
    )


def verified(name: str, runtime: Runtime) -> Runtime:
    """Return the runtime if it has a digest for each architecture; raise `ValueError` otherwise."""
    if any(not re.fullmatch(DIGEST, runtime.digests.get(architecture, "")) for architecture in MACHINES):
        raise ValueError(
            f"runtimes.{name} in pinned_versions.toml has no digest for each of {', '.join(MACHINES)}, and nothing is"
            " installed unverified: add sha256:… or sha512:…"
        )
    return runtime


def _sources(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Source]:
    return {name: Source(**row) for name, row in rows.items()}
