"""Runs the rules without an engine: over plain resources, or over Kubernetes manifests as anybody writes them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import yaml

from model.capabilities.plain import as_mapping
from policies.documents import GrownError, documents
from policies.judging import judge_all
from policies.rules.registry import Rule, all_rules
from policies.verdicts import Finding, Verdict
from policies.view.graph import Graph
from policies.view.resource import Resource
from policies.view.situation import Situation

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
    """What was read of files: the objects, the files that cannot be read, and what in the others is no object."""

    resources: list[Resource] = field(default_factory=list[Resource])
    unreadable: list[tuple[Path, str]] = field(default_factory=list[tuple[Path, str]])
    skipped: list[Skipped] = field(default_factory=list[Skipped])

    def findings(self, rules: Sequence[Rule] | None = None) -> list[Finding]:
        """What the rules say; of nothing they say nothing, and pass nothing."""
        return findings_of(self.resources, rules=rules) if self.resources else []


def resources_of_manifests(
    text: str, situation: Situation | None = None, *, source: str = "manifest"
) -> list[Resource]:
    """The objects of a text as resources; the URN has where they were read: the file, and which document of it."""
    return [one for one in _in_text(text, situation, source) if isinstance(one, Resource)]


def resources_of_objects(
    things: Iterable[object], situation: Situation | None = None, *, source: str = "manifest"
) -> Iterator[Resource]:
    """Kubernetes objects as the engine would have registered them; what is no object is passed over."""
    for document in things:
        one = _one(document, situation, source)
        if isinstance(one, Resource):
            yield one


def _in_text(text: str, situation: Situation | None, source: str) -> Iterator[Resource | Skipped]:
    for index, document in enumerate(documents(text)):
        place = f"{source}#{index}"
        if isinstance(document, list):
            listed = enumerate(cast("list[object]", document))
            yield from (_one(one, situation, f"{place}[{at}]") for at, one in listed if one is not None)
        elif document is not None:
            yield _one(document, situation, place)


def _one(document: object, situation: Situation | None, place: str) -> Resource | Skipped:
    if not isinstance(document, Mapping):
        return Skipped(place, "it is no object")
    plain = cast("Mapping[str, object]", document)
    version, kind = plain.get("apiVersion"), plain.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        lacks = [key for key in ("apiVersion", "kind") if not isinstance(plain.get(key), str)]
        return Skipped(place, f"it has no {' and no '.join(lacks)} that is a text")
    if not kind[:1].isupper():
        return Skipped(place, f"no kind is written '{kind}'")
    named = as_mapping(plain.get("metadata")) or {}
    name = str(named.get("name") or named.get("generateName") or kind.lower())
    namespace = named.get("namespace")
    title = f"{namespace}/{name}" if isinstance(namespace, str) else name
    token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{kind}"
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
            found = list(_in_text(file.read_text(encoding="utf-8"), situation, str(file)))
        except (OSError, UnicodeError, GrownError) as error:
            read.unreadable.append((file, str(error)))
        except (yaml.YAMLError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            read.unreadable.append((file, f"it is no YAML{f': line {mark.line + 1}' if mark else ''}"))
        else:
            read.resources.extend(one for one in found if isinstance(one, Resource))
            read.skipped.extend(one for one in found if isinstance(one, Skipped))
    return read


def source_of(urn: str) -> str:
    """Where a manifest's resource was read: the file, and the number of its document after a `#`."""
    return urn.removeprefix("urn:pulumi:").partition("::")[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m policies.offline FILE…`: one JSON object with all findings; exits 1 where a rule failed, where a file
    cannot be read and where there was nothing to judge.
    """
    paths = [Path(one) for one in (sys.argv[1:] if arguments is None else arguments)]
    read = read_files(paths)
    answer = report(read.findings(), read)
    sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if answer["failed"] or read.unreadable or not read.resources else 0


def report(findings: Iterable[Finding], read: Read) -> dict[str, object]:
    """What is printed of findings: all but the passes, which are counted."""
    told = list(findings)
    counts = Counter(one.verdict for one in told)
    return {
        "passed": counts[Verdict.PASS],
        "failed": counts[Verdict.FAIL],
        "indeterminate": counts[Verdict.INDETERMINATE],
        "findings": [
            {**one.plain(), "file": source_of(one.urn)}
            for one in told
            if one.verdict in {Verdict.FAIL, Verdict.INDETERMINATE}
        ],
        "unreadable": [{"file": str(file), "reason": reason} for file, reason in read.unreadable],
        "skipped": [{"file": one.place, "reason": one.reason} for one in read.skipped],
    }


if __name__ == "__main__":
    sys.exit(main())
