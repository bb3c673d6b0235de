"""Evaluate the rules without an engine, over plain resources or Kubernetes manifests."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from agentenv.core.capabilities.unknown_values import as_mapping
from agentenv.core.values.kubernetes_yaml import MOST_BYTES, Document, ManifestError, decode, documents, values
from agentenv.policies.evaluate import evaluate_stack
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import Finding
from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

STDIN: Final = Path("-")
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


def findings_of(
    resources: Iterable[Resource], context: PolicyContext | None = None, rules: Sequence[Rule] | None = None
) -> list[Finding]:
    """Return the findings of these rules, or of all, for resources."""
    return evaluate_stack(all_rules() if rules is None else rules, Graph(resources, context))


def findings_of_manifests(
    text: str, context: PolicyContext | None = None, rules: Sequence[Rule] | None = None, *, source: str = "manifest"
) -> list[Finding]:
    """Return the findings for the objects in YAML or JSON documents."""
    return findings_of(resources_of_manifests(text, context, source=source), context, rules)


@dataclass(frozen=True)
class Skipped:
    """Content of a file that is not evaluated: its location, and the reason."""

    location: str
    reason: str


@dataclass(frozen=True)
class Manifests:
    """The content of files: the objects, the files that cannot be read, and the content that is not an object."""

    resources: list[Resource] = field(default_factory=list[Resource])
    documents: dict[str, Document] = field(default_factory=dict[str, Document])  # by file and number
    unreadable: list[tuple[Path, str]] = field(default_factory=list[tuple[Path, str]])
    skipped: list[Skipped] = field(default_factory=list[Skipped])

    def findings(self, rules: Sequence[Rule] | None = None) -> list[Finding]:
        """Return the findings. Without objects there are none, not even passes."""
        return findings_of(self.resources, rules=rules) if self.resources else []

    def place(self, urn: str, path: Sequence[str | int]) -> tuple[str, int]:
        """Return the file and the line of a place in an object."""
        file, hash_, rest = source_of(urn).rpartition("#")
        number, *items = re.findall(r"\d+", rest)
        document = self.documents.get(f"{file}{hash_}{number}") if hash_ and number else None
        if document is None:
            return source_of(urn), 1
        steps: list[str | int] = []
        within: object = document.value
        for item in map(int, items):
            mapping = as_mapping(within)
            if mapping is not None:
                steps.append("items")
                within = mapping.get("items")
            steps.append(item)
            within = cast("list[object]", within)[item] if isinstance(within, list) else None
        return file, document.line_of([*steps, *path])


def resources_of_manifests(
    text: str, context: PolicyContext | None = None, *, source: str = "manifest"
) -> list[Resource]:
    """Return the objects of a text as resources; the URN has their file and the number of the document.

    Raise `ManifestError` if the text cannot be read.
    """
    parsed = (
        item for index, value in enumerate(values(text)) for item in _objects(value, context, f"{source}#{index}")
    )
    return [item for item in parsed if isinstance(item, Resource)]


def resources_of_objects(
    documents: Iterable[object], context: PolicyContext | None = None, *, source: str = "manifest"
) -> Iterator[Resource]:
    """Yield Kubernetes objects as resources; skip anything that is not an object."""
    for document in documents:
        resource = _object(document, context, source)
        if isinstance(resource, Resource):
            yield resource


def _objects(value: object, context: PolicyContext | None, location: str) -> Iterator[Resource | Skipped]:
    """Yield the objects of a document. To kubectl, any object with `items` is a list."""
    if isinstance(value, list):
        for index, element in enumerate(cast("list[object]", value)):
            yield from _objects(element, context, f"{location}[{index}]")
        return
    if value is None:
        return
    plain = as_mapping(value)
    if plain is None or "items" not in plain:
        yield _object(value, context, location)
        return
    kind, version, items = plain.get("kind"), plain.get("apiVersion"), plain["items"]
    kind = kind if isinstance(kind, str) else ""
    if not kind.endswith("List"):
        yield _object(plain, context, location)
    if not isinstance(items, list | None):
        yield Skipped(location, "its items are not a list")
    for index, item in enumerate(cast("list[object]", items) if isinstance(items, list) else []):
        manifest = as_mapping(item)
        # The items of a typed list may omit their kind and version
        if manifest is not None and not manifest.get("kind") and not manifest.get("apiVersion"):
            typed = {**manifest, "kind": kind.removesuffix("List"), "apiVersion": version}
            yield from _objects(typed, context, f"{location}[{index}]")
        else:
            yield from _objects(item, context, f"{location}[{index}]")


def _object(document: object, context: PolicyContext | None, location: str) -> Resource | Skipped:
    if not isinstance(document, Mapping):
        return Skipped(location, "it is not an object")
    plain = cast("Mapping[str, object]", document)
    version, kind = plain.get("apiVersion"), plain.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        missing = [key for key in ("apiVersion", "kind") if not isinstance(plain.get(key), str)]
        return Skipped(location, f"its {' and '.join(missing)} must be a string")
    if not re.fullmatch("[A-Z][A-Za-z0-9]*", kind):
        return Skipped(location, f"{kind[:40]!r} is not a valid kind")
    # The API server reads /v1 as v1
    if not re.fullmatch("(?:[A-Za-z0-9.-]*/)?[A-Za-z0-9]+", version):
        return Skipped(location, f"{version[:40]!r} is not a valid apiVersion")
    group, _, version = version.rpartition("/")
    metadata = as_mapping(plain.get("metadata")) or {}
    name = str(metadata.get("name") or metadata.get("generateName") or kind.lower())
    namespace = metadata.get("namespace")
    title = f"{namespace}/{name}" if isinstance(namespace, str) else name
    token = f"kubernetes:{group or 'core'}/{version}:{kind}"
    urn = f"urn:pulumi:{location}::manifests::{token}::{title}"
    return Resource(urn, token, name, plain, context=context or PolicyContext())


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield these files, and the YAML and JSON files of these folders."""
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        else:
            yield path


def read_files(paths: Iterable[Path], context: PolicyContext | None = None) -> Manifests:
    """Read the objects of files, folders and standard input (`-`), and record everything that is not evaluated."""
    manifests = Manifests()
    for file in files_in(paths):
        try:
            if file == STDIN:
                file, text = Path("stdin"), decode(sys.stdin.buffer.read(MOST_BYTES + 1))  # noqa: PLW2901
            else:
                with file.open("rb") as stream:
                    text = decode(stream.read(MOST_BYTES + 1))
        except (OSError, ManifestError) as error:
            manifests.unreadable.append((file, str(error)))
            continue
        for document in documents(text, unique_keys=True):
            if document.error:
                manifests.unreadable.append((file, str(document.error)))
            manifests.documents[f"{file}#{document.number}"] = document
            for item in _objects(document.value, context, f"{file}#{document.number}"):
                if isinstance(item, Resource):
                    manifests.resources.append(item)
                else:
                    manifests.skipped.append(item)
    return manifests


def source_of(urn: str) -> str:
    """Return where a manifest's resource was read: the file, and the number of its document after a `#`."""
    return urn.removeprefix("urn:pulumi:").partition("::")[0]
