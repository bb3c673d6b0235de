"""Manifests: read from text and files, lists taken apart, namespaces put in, and put in an order to be created in."""

from __future__ import annotations

import glob
import re
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentenv.core.values.kubernetes_yaml import ManifestError, values
from agentenv.rehearsal.providers.kubernetes import objects, published
from agentenv.rehearsal.providers.kubernetes.discovery import canonical, group_of
from agentenv.rehearsal.providers.kubernetes.objects import Object, pluck

DEPENDS_ON: Final = "config.kubernetes.io/depends-on"
FETCH_PATIENCE: Final = 60.0


class BadManifest(Exception):
    """What is wrong with a manifest, and in which."""


def parse(text: str, where: str) -> list[Object]:
    """The objects of a text with any number of documents; empty ones are skipped."""
    found: list[Object] = []
    try:
        for document in values(text):
            if document is None or document == {}:
                continue
            if not isinstance(document, dict):
                raise BadManifest(f"{where}: expected an object, found {type(document).__name__}")
            found.append(document)
    except ManifestError as error:
        raise BadManifest(f"{where} is not YAML at {error}") from None
    return found


def read(files: Iterable[str], *, patterns: bool) -> list[Object]:
    """The objects of files and addresses, in the order given; patterns match in the order of their names."""
    found: list[Object] = []
    for file in files:
        if re.match(r"[a-z][a-z0-9+.-]*://", file):
            copy = published.own_copy(file)
            found += parse(copy.read_text(encoding="utf-8") if copy else _fetched(file), file)
            continue
        matches = sorted(glob.glob(file)) if patterns and re.search(r"[*?\[]", file) else [file]  # noqa: PTH207 - the pattern may be absolute
        for match in matches:
            try:
                found += parse(Path(match).read_text(encoding="utf-8"), match)
            except OSError as error:
                raise BadManifest(f"{match} cannot be read: {error.strerror}") from None
    return found


def _fetched(address: str) -> str:
    if not address.startswith(("https://", "http://")):
        raise BadManifest(f"{address}: only http, https and paths are read")
    try:
        with urllib.request.urlopen(address, timeout=FETCH_PATIENCE) as answer:  # noqa: S310 - checked above
            return str(answer.read().decode())
    except (OSError, ValueError) as error:
        raise BadManifest(f"{address} cannot be fetched: {error}") from None


def normal(found: Sequence[Object], default: str, scope: Callable[[Mapping[str, Any]], bool | None]) -> list[Object]:
    """Lists taken apart, and a namespace for what wants one and has none; what has no name is refused."""
    flat = [_kinded(obj) for obj in _flat(found)]
    own = {
        (str(pluck(d, "spec", "group")), str(pluck(d, "spec", "names", "kind"))): pluck(d, "spec", "scope") != "Cluster"
        for d in flat
        if objects.is_definition(d)
    }
    out: list[Object] = []
    for obj in flat:
        told = own.get((group_of(objects.api_version(obj)), objects.kind(obj)))
        namespaced = scope(obj) if told is None else told
        plain = objects.namespace(obj) or namespaced is not True
        out.append(obj if plain else objects.with_metadata(obj, namespace=default))
    return out


def _flat(found: Iterable[Object]) -> Iterable[Object]:
    for obj in found:
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
            raise BadManifest(f"an object without {name}: {str(obj)[:100]}")
    return {**obj, "apiVersion": canonical(obj["apiVersion"])}


@dataclass(frozen=True)
class Ordered:
    """An object, and those before it (by position) that have to be there first."""

    obj: Object
    after: tuple[int, ...]


def ordered(found: Sequence[Object]) -> list[Ordered]:
    """An order in which definitions come before their objects, namespaces before what is in them, and so on."""
    needs = [_needs(obj, found) - {index} for index, obj in enumerate(found)]
    out: list[Ordered] = []
    place: dict[int, int] = {}
    while len(place) < len(found):
        ready = [i for i in range(len(found)) if i not in place and needs[i] <= place.keys()]
        if not ready:
            stuck = [
                f"{objects.kind(found[i])} {objects.identity(found[i])}" for i in range(len(found)) if i not in place
            ]
            raise BadManifest(f"objects depend on each other in a circle: {', '.join(stuck)}")
        for index in ready:
            out.append(Ordered(found[index], tuple(sorted(place[i] for i in needs[index]))))
            place[index] = len(out) - 1
    return out


def _needs(obj: Object, found: Sequence[Object]) -> set[int]:
    group, kind, place = group_of(objects.api_version(obj)), objects.kind(obj), objects.namespace(obj)
    asked = {_reference(text) for text in objects.annotation(obj, DEPENDS_ON).split(",") if text.strip()}
    out: set[int] = set()
    for index, other in enumerate(found):
        defines = objects.is_definition(other) and (
            (pluck(other, "spec", "group"), pluck(other, "spec", "names", "kind")) == (group, kind)
        )
        houses = objects.kind(other) == "Namespace" and place != "" and objects.name(other) == place
        key = (group_of(objects.api_version(other)), objects.kind(other), objects.namespace(other), objects.name(other))
        if defines or houses or key in asked:
            out.add(index)
    return out


def _reference(text: str) -> tuple[str, str, str, str]:
    """`group/namespaces/namespace/Kind/name`, or `group/Kind/name`; the core group's name is empty."""
    parts = text.strip().split("/")
    if len(parts) == 5 and parts[1] == "namespaces":
        return parts[0], parts[3], parts[2], parts[4]
    if len(parts) == 3:
        return parts[0], parts[1], "", parts[2]
    raise BadManifest(
        f"{DEPENDS_ON}: {text.strip()!r} must be <group>/namespaces/<namespace>/<Kind>/<name> or <group>/<Kind>/<name>"
    )
