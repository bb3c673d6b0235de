"""The versions and public addresses of everything that is not ours, from the one file that pins them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Source:
    """Where something is fetched from, which version of it, and how it is known to be that."""

    address: str
    version: str
    checksum: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict[str, str])


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
    runtimes: Mapping[str, Source]


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
        runtimes=verified(_sources(read["runtimes"])),
    )


def verified(runtimes: dict[str, Source]) -> dict[str, Source]:
    """The runtimes, each with a way to know it for what it is: nobody's wall is built from what was not checked."""
    for name, source in runtimes.items():
        digests = source.sha256.values()
        if not source.checksum and not (digests and all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)):
            raise ValueError(
                f"runtimes.{name} in pinned_versions.toml has no checksum, and nothing is installed unchecked: give its"
                " sha256 by package, or as checksum the ending of the files that have it"
            )
    return runtimes


def _sources(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Source]:
    return {name: Source(**row) for name, row in rows.items()}
