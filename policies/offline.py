"""Runs the rules without an engine: over plain resources, or over Kubernetes manifests as anybody writes them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import yaml

from model.capabilities.plain import as_mapping
from policies.documents import documents
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


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """The files given, and the YAML and JSON files in the folders given."""
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES and one.is_file())
        else:
            yield path


def read_files(
    paths: Iterable[Path], situation: Situation | None = None
) -> tuple[list[Resource], list[tuple[Path, str]]]:
    """The objects of files and folders, and the files that cannot be read with the reason."""
    found: list[Resource] = []
    unreadable: list[tuple[Path, str]] = []
    for file in files_in(paths):
        try:
            found += resources_of_manifests(file.read_text(encoding="utf-8"), situation, source=str(file))
        except (OSError, UnicodeError) as error:
            unreadable.append((file, str(error)))
        except (yaml.YAMLError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            unreadable.append((file, f"it is no YAML{f': line {mark.line + 1}' if mark else ''}"))
    return found, unreadable


def source_of(urn: str) -> str:
    """Where a manifest's resource was read: the file, and the number of its document after a `#`."""
    return urn.removeprefix("urn:pulumi:").partition("::")[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m policies.offline FILE…`: one JSON object with all findings; exits 1 where a rule failed."""
    paths = [Path(one) for one in (sys.argv[1:] if arguments is None else arguments)]
    resources, unreadable = read_files(paths)
    answer = report(findings_of(resources), unreadable)
    sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if answer["failed"] or unreadable else 0


def report(findings: Iterable[Finding], unreadable: Sequence[tuple[Path, str]]) -> dict[str, object]:
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
        "unreadable": [{"file": str(file), "reason": reason} for file, reason in unreadable],
    }


if __name__ == "__main__":
    sys.exit(main())
