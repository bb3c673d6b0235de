"""Runs the rules without an engine: over plain resources, or over Kubernetes manifests as anybody writes them."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from agentenv.core.capabilities.unknown_values import as_mapping
from agentenv.core.values.kubernetes_yaml import MOST_BYTES, ManifestError, decode, documents, values
from agentenv.policies.evaluate import judge_all
from agentenv.policies.packs.enforcement import PRODUCTION
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import Finding, Verdict
from agentenv.policies.view.environment import Situation
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


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


@dataclass(frozen=True)
class Skipped:
    """What stood in a file and was not judged: where, and why."""

    place: str
    reason: str


@dataclass(frozen=True)
class Read:
    """What was read of files: the objects, what cannot be read, and what is no object."""

    resources: list[Resource] = field(default_factory=list[Resource])
    unreadable: list[tuple[Path, str]] = field(default_factory=list[tuple[Path, str]])
    skipped: list[Skipped] = field(default_factory=list[Skipped])

    def findings(self, rules: Sequence[Rule] | None = None) -> list[Finding]:
        """What the rules say; of nothing they say nothing, and pass nothing."""
        return findings_of(self.resources, rules=rules) if self.resources else []

    def fails(self, findings: Iterable[Finding]) -> bool:
        """Whether a check with those findings fails: also where something was not read, and where nothing was."""
        return bool(self.unreadable) or not self.resources or any(map(blocks, findings))


def blocks(finding: Finding) -> bool:
    """Whether a finding fails a check of manifests: a rule fails, or a Critical or High one cannot tell."""
    undecided = finding.verdict is Verdict.INDETERMINATE and finding.severity in PRODUCTION.indeterminate
    return undecided or finding.verdict is Verdict.FAIL


def resources_of_manifests(
    text: str, situation: Situation | None = None, *, source: str = "manifest"
) -> list[Resource]:
    """The objects of a text as resources; the URN has where they were read: the file, and which document of it.

    A text that cannot be read raises `ManifestError`.
    """
    found = (one for at, value in enumerate(values(text)) for one in _objects(value, situation, f"{source}#{at}"))
    return [one for one in found if isinstance(one, Resource)]


def resources_of_objects(
    things: Iterable[object], situation: Situation | None = None, *, source: str = "manifest"
) -> Iterator[Resource]:
    """Kubernetes objects as the engine would have registered them; what is no object is passed over."""
    for document in things:
        one = _one(document, situation, source)
        if isinstance(one, Resource):
            yield one


def _objects(value: object, situation: Situation | None, place: str) -> Iterator[Resource | Skipped]:
    """Take lists apart: to kubectl an object is one wherever it has items."""
    if isinstance(value, list):
        for index, one in enumerate(cast("list[object]", value)):
            yield from _objects(one, situation, f"{place}[{index}]")
        return
    if value is None:
        return
    plain = as_mapping(value)
    if plain is None or "items" not in plain:
        yield _one(value, situation, place)
        return
    kind, version, items = plain.get("kind"), plain.get("apiVersion"), plain["items"]
    kind = kind if isinstance(kind, str) else ""
    if not kind.endswith("List"):
        yield _one(plain, situation, place)
    if not isinstance(items, list | None):
        yield Skipped(place, "its items are no list")
    for index, item in enumerate(cast("list[object]", items) if isinstance(items, list) else []):
        named = as_mapping(item)
        # The items of a typed list need not say what they are
        if named is not None and not named.get("kind") and not named.get("apiVersion"):
            typed = {**named, "kind": kind.removesuffix("List"), "apiVersion": version}
            yield from _objects(typed, situation, f"{place}[{index}]")
        else:
            yield from _objects(item, situation, f"{place}[{index}]")


def _one(document: object, situation: Situation | None, place: str) -> Resource | Skipped:
    if not isinstance(document, Mapping):
        return Skipped(place, "it is no object")
    plain = cast("Mapping[str, object]", document)
    version, kind = plain.get("apiVersion"), plain.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        lacks = [key for key in ("apiVersion", "kind") if not isinstance(plain.get(key), str)]
        return Skipped(place, f"it has no {' and no '.join(lacks)} that is a text")
    if not re.fullmatch("[A-Z][A-Za-z0-9]*", kind):
        return Skipped(place, f"no kind is written {kind[:40]!r}")
    # The API server takes /v1 for v1
    if not re.fullmatch("(?:[A-Za-z0-9.-]*/)?[A-Za-z0-9]+", version):
        return Skipped(place, f"no apiVersion is written {version[:40]!r}")
    group, _, version = version.rpartition("/")
    named = as_mapping(plain.get("metadata")) or {}
    name = str(named.get("name") or named.get("generateName") or kind.lower())
    namespace = named.get("namespace")
    title = f"{namespace}/{name}" if isinstance(namespace, str) else name
    token = f"kubernetes:{group or 'core'}/{version}:{kind}"
    urn = f"urn:pulumi:{place}::manifests::{token}::{title}"
    return Resource(urn, token, name, plain, situation=situation or Situation())


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """The files given, and the YAML and JSON files in the folders given."""
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES and one.is_file())
        else:
            yield path


def read_files(paths: Iterable[Path], situation: Situation | None = None) -> Read:
    """The objects of files and folders, and what of them was not judged, with the reason."""
    read = Read()
    for file in files_in(paths):
        try:
            with file.open("rb") as stream:
                text = decode(stream.read(MOST_BYTES + 1))
        except (OSError, ManifestError) as error:
            read.unreadable.append((file, str(error)))
            continue
        for document in documents(text):
            if document.error:
                read.unreadable.append((file, str(document.error)))
            for one in _objects(document.value, situation, f"{file}#{document.number}"):
                if isinstance(one, Resource):
                    read.resources.append(one)
                else:
                    read.skipped.append(one)
    return read


def source_of(urn: str) -> str:
    """Where a manifest's resource was read: the file, and the number of its document after a `#`."""
    return urn.removeprefix("urn:pulumi:").partition("::")[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m agentenv.policies.offline FILE…`: one JSON object with all findings; exits as `agentenv policies
    check`.
    """
    paths = [Path(one) for one in (sys.argv[1:] if arguments is None else arguments)]
    read = read_files(paths)
    findings = read.findings()
    sys.stdout.write(json.dumps(report(findings, read)) + "\n")
    return 1 if read.fails(findings) else 0


def report(findings: Iterable[Finding], read: Read) -> dict[str, object]:
    """What is printed of findings: all but the passes, which are counted."""
    told = list(findings)
    counts = Counter(one.verdict for one in told)
    return {
        "passed": counts[Verdict.PASS],
        "failed": counts[Verdict.FAIL],
        "indeterminate": counts[Verdict.INDETERMINATE],
        "findings": [
            {**one.plain(), "file": source_of(one.urn), "blocks": blocks(one)}
            for one in told
            if one.verdict in {Verdict.FAIL, Verdict.INDETERMINATE}
        ],
        "unreadable": [{"file": str(file), "reason": reason} for file, reason in read.unreadable],
        "skipped": [{"file": one.place, "reason": one.reason} for one in read.skipped],
    }


if __name__ == "__main__":
    sys.exit(main())
