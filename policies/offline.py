"""Runs the rules without an engine: over plain resources, or over Kubernetes manifests as anybody writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from model.capabilities.plain import as_mapping
from policies.documents import documents
from policies.judging import judge_all
from policies.rules.registry import Rule, all_rules
from policies.verdicts import Finding
from policies.view.graph import Graph
from policies.view.resource import Resource
from policies.view.situation import Situation


def findings_of(
    resources: Iterable[Resource], situation: Situation | None = None, rules: Sequence[Rule] | None = None
) -> list[Finding]:
    """What the rules, all of them or those given, say of resources."""
    return judge_all(all_rules() if rules is None else rules, Graph(resources, situation))


def findings_of_manifests(
    text: str, situation: Situation | None = None, rules: Sequence[Rule] | None = None, *, source: str = "manifest"
) -> list[Finding]:
    """What the rules say of the objects in a text of YAML or JSON documents."""
    return findings_of(resources_of_manifests(text, situation, source=source), situation, rules)


def resources_of_manifests(
    text: str, situation: Situation | None = None, *, source: str = "manifest"
) -> list[Resource]:
    """The objects of a text as resources; the URN has where they were read: the file, and which document of it."""
    found: list[Resource] = []
    for index, document in enumerate(documents(text)):
        found += resources_of_objects([document], situation, source=f"{source}#{index}")
    return found


def resources_of_objects(
    things: Iterable[object], situation: Situation | None = None, *, source: str = "manifest"
) -> Iterator[Resource]:
    """Kubernetes objects as the engine would have registered them; what is no object is passed over."""
    for document in things:
        if not isinstance(document, Mapping):
            continue
        plain = cast("Mapping[str, object]", document)
        version, kind = plain.get("apiVersion"), plain.get("kind")
        if not isinstance(version, str) or not isinstance(kind, str):
            continue
        named = as_mapping(plain.get("metadata")) or {}
        name = str(named.get("name") or named.get("generateName") or kind.lower())
        namespace = named.get("namespace")
        title = f"{namespace}/{name}" if isinstance(namespace, str) else name
        token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{kind}"
        urn = f"urn:pulumi:{source}::manifests::{token}::{title}"
        yield Resource(urn, token, name, plain, situation=situation or Situation())


def read_files(paths: Iterable[Path], situation: Situation | None = None) -> list[Resource]:
    """The objects of files, and of the YAML and JSON files in folders."""
    found: list[Resource] = []
    for path in paths:
        files = (
            sorted(one for one in path.rglob("*") if one.suffix in {".yaml", ".yml", ".json"})
            if path.is_dir()
            else [path]
        )
        for file in files:
            found += resources_of_manifests(file.read_text(encoding="utf-8"), situation, source=str(file))
    return found
