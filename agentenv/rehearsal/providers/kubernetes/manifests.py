"""Manifests: parse them, flatten lists, set namespaces, and sort objects in their order of creation."""

from __future__ import annotations

import functools
import glob
import re
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentenv.core.pinned_versions import releases
from agentenv.core.values.kubernetes_yaml import ManifestError, values
from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.discovery import canonical, group_of
from agentenv.rehearsal.providers.kubernetes.objects import Object, get_field
from agentenv.rehearsal.tools import catalog, toolbox
from agentenv.rehearsal.tools.errors import UnknownTool

DEPENDS_ON: Final = "config.kubernetes.io/depends-on"
FETCH_TIMEOUT: Final = 60.0


class InvalidManifest(Exception):
    """The manifest is not valid."""


def parse(text: str, source: str) -> list[Object]:
    """Return the objects of all documents in a text, without empty ones."""
    manifest_objects: list[Object] = []
    try:
        for document in values(text):
            if document is None or document == {}:
                continue
            if not isinstance(document, dict):
                raise InvalidManifest(f"{source}: expected an object, found {type(document).__name__}")
            manifest_objects.append(document)
    except ManifestError as error:
        raise InvalidManifest(f"{source} is not YAML at {error}") from None
    return manifest_objects


def read(files: Iterable[str], *, patterns: bool) -> list[Object]:
    """Return the objects of files and URLs in order. Matches of a pattern are sorted by name."""
    manifest_objects: list[Object] = []
    for file in files:
        if re.match(r"[a-z][a-z0-9+.-]*://", file):
            copy = local_copy(file)
            manifest_objects += parse(copy.read_text(encoding="utf-8") if copy else _fetched(file), file)
            continue
        matches = sorted(glob.glob(file)) if patterns and re.search(r"[*?\[]", file) else [file]  # noqa: PTH207 - the pattern may be absolute
        for match in matches:
            try:
                manifest_objects += parse(Path(match).read_text(encoding="utf-8"), match)
            except OSError as error:
                raise InvalidManifest(f"{match} cannot be read: {error.strerror}") from None
    return manifest_objects


def _fetched(address: str) -> str:
    if not address.startswith(("https://", "http://")):
        raise InvalidManifest(f"{address}: only http, https and paths are read")
    try:
        with urllib.request.urlopen(address, timeout=FETCH_TIMEOUT) as response:  # noqa: S310 - checked above
            return str(response.read().decode())
    except (OSError, ValueError) as error:
        raise InvalidManifest(f"{address} cannot be fetched: {error}") from None


def normalized(
    manifest_objects: Sequence[Object], default: str, scope: Callable[[Mapping[str, Any]], bool | None]
) -> list[Object]:
    """Flatten lists and set missing namespaces. An object without a name is an error."""
    flat = [_kinded(obj) for obj in _flat(manifest_objects)]
    definitions = {
        (str(get_field(d, "spec", "group")), str(get_field(d, "spec", "names", "kind"))): get_field(d, "spec", "scope")
        != "Cluster"
        for d in flat
        if objects.is_definition(d)
    }
    out: list[Object] = []
    for obj in flat:
        defined_scope = definitions.get((group_of(objects.api_version(obj)), objects.kind(obj)))
        namespaced = scope(obj) if defined_scope is None else defined_scope
        plain = objects.namespace(obj) or namespaced is not True
        out.append(obj if plain else objects.with_metadata(obj, namespace=default))
    return out


def _flat(manifest_objects: Iterable[Object]) -> Iterable[Object]:
    for obj in manifest_objects:
        if objects.kind(obj).endswith("List") and isinstance(obj.get("items"), list):
            yield from _flat(obj["items"])
        else:
            yield obj


def _kinded(obj: Object) -> Object:
    for name, value in (
        ("apiVersion", objects.api_version(obj)),
        ("kind", objects.kind(obj)),
        ("metadata.name", objects.name(obj)),
    ):
        if not value:
            raise InvalidManifest(f"an object without {name}: {str(obj)[:100]}")
    return {**obj, "apiVersion": canonical(obj["apiVersion"])}


@dataclass(frozen=True)
class Ordered:
    """An object, and the positions of the objects that must exist before it."""

    obj: Object
    after: tuple[int, ...]


def in_order(manifest_objects: Sequence[Object]) -> list[Ordered]:
    """Sort the objects: definitions before their objects, namespaces before their content, and so on."""
    needs = [_needs(obj, manifest_objects) - {index} for index, obj in enumerate(manifest_objects)]
    out: list[Ordered] = []
    place: dict[int, int] = {}
    while len(place) < len(manifest_objects):
        ready = [i for i in range(len(manifest_objects)) if i not in place and needs[i] <= place.keys()]
        if not ready:
            stuck = [
                f"{objects.kind(manifest_objects[i])} {objects.identity(manifest_objects[i])}"
                for i in range(len(manifest_objects))
                if i not in place
            ]
            raise InvalidManifest(f"objects depend on each other in a circle: {', '.join(stuck)}")
        for index in ready:
            out.append(Ordered(manifest_objects[index], tuple(sorted(place[i] for i in needs[index]))))
            place[index] = len(out) - 1
    return out


def _needs(obj: Object, manifest_objects: Sequence[Object]) -> set[int]:
    group, kind, place = group_of(objects.api_version(obj)), objects.kind(obj), objects.namespace(obj)
    references = {_reference(text) for text in objects.annotation(obj, DEPENDS_ON).split(",") if text.strip()}
    out: set[int] = set()
    for index, other in enumerate(manifest_objects):
        defines = objects.is_definition(other) and (
            (get_field(other, "spec", "group"), get_field(other, "spec", "names", "kind")) == (group, kind)
        )
        houses = objects.kind(other) == "Namespace" and place != "" and objects.name(other) == place
        key = (group_of(objects.api_version(other)), objects.kind(other), objects.namespace(other), objects.name(other))
        if defines or houses or key in references:
            out.add(index)
    return out


def _reference(text: str) -> tuple[str, str, str, str]:
    """Parse `group/namespaces/namespace/Kind/name` or `group/Kind/name`. The core group's name is empty."""
    parts = text.strip().split("/")
    if len(parts) == 5 and parts[1] == "namespaces":
        return parts[0], parts[3], parts[2], parts[4]
    if len(parts) == 3:
        return parts[0], parts[1], "", parts[2]
    raise InvalidManifest(
        f"{DEPENDS_ON}: {text.strip()!r} must be <group>/namespaces/<namespace>/<Kind>/<name> or <group>/<Kind>/<name>"
    )


SUFFIX: Final = "-manifests"  # of the tools that are folders of manifests


def local_copy(address: str) -> Path | None:
    """Return the local copy of a published file, if it belongs to a pinned release that has been fetched.

    The copies are of the same release, so a rehearsal needs no network once its tools are built.
    """
    for release, pinned in releases().manifests.items():
        base = f"{pinned.address.rstrip('/')}/"
        folder = _release_folder(f"{release}{SUFFIX}", pinned.version) if address.startswith(base) else None
        if folder is not None and (file := folder / address.removeprefix(base)).is_file():
            return file
    return None


@functools.cache
def _release_folder(tool: str, version: str) -> Path | None:
    try:
        row = catalog.recipe(tool)
    except UnknownTool:
        return None
    return toolbox.find(row).path if row.version == version else None
