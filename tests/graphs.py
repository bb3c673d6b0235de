"""Compare the resource graphs of two checkouts, to prove that a change to names or files changes no resource.

    python -m tests.graphs dump before.json                     # this checkout
    python -m tests.graphs dump after.json --root ../moved      # another checkout, under this one's stand-ins
    python -m tests.graphs compare before.json after.json

Every stack file is previewed without an account. Both dumps use the stand-ins of the calling checkout, so a difference
comes from the program alone. Source lines are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentenv.cli.review.graph import Graph
from agentenv.cli.review.offline import preview_tree

ROOT = Path(__file__).resolve().parent.parent
Stacks = dict[str, dict[str, Any]]  # by stack, then by URN
_MAX_LENGTH = 160
_RANDOM = re.compile(r"-[0-9a-f]{7,8}$")  # the suffix of an auto-named resource
_ADOPTS = "adopted"  # a preview of it needs the VPC, the cluster and the file system that it adopts


def stack_names(root: Path) -> list[str]:
    """Return the stacks that a checkout has a file for."""
    return sorted(path.name.split(".")[1] for path in (root / "stacks").glob("Pulumi.*.yaml"))


def previewable(root: Path) -> list[str]:
    """Return the stacks that can be previewed without an account."""
    return [name for name in stack_names(root) if name != _ADOPTS]


def as_json(graph: Graph) -> dict[str, Any]:
    """Return the resources by URN, without the lines of the program that registered them."""
    rows = {urn: {key: value for key, value in asdict(graph[urn]).items() if key != "source"} for urn in sorted(graph)}
    for row in rows.values():
        # Python's sets of Outputs have no order, and neither have the dependencies that the engine derives from them.
        row["dependencies"] = sorted(row["dependencies"])
        row["property_dependencies"] = {key: sorted(urns) for key, urns in row["property_dependencies"].items()}
        name = row["urn"].rpartition("::")[2]
        row["inputs"], row["outputs"] = (
            without_random_suffix(name, decode_json(row[group])) for group in ("inputs", "outputs")
        )
    return json.loads(json.dumps(rows))


def decode_json(value: Any) -> Any:
    """Return a value with JSON texts in it parsed, so that a difference is shown at its own path."""
    if isinstance(value, Mapping):
        return {key: decode_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [decode_json(inner) for inner in value]
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            # As pairs, and with its length: the order of keys and the spacing are part of the text.
            parsed = json.loads(value, object_pairs_hook=lambda pairs: {"pairs": pairs})
        except ValueError:
            return value
        return {"json": parsed, "length": len(value)}
    return value


def without_random_suffix(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with the random suffix of auto-named resources replaced: it differs in every preview."""
    return {
        key: f"{name}-(random)" if isinstance(value, str) and _RANDOM.sub("", value) == name != value else value
        for key, value in values.items()
    }


def differences(before: Stacks, after: Stacks) -> Iterator[str]:
    """Yield a line for each difference: the stack, the URN, the path, and both values."""
    for stack in sorted({*before, *after}):
        then, now = before.get(stack, {}), after.get(stack, {})
        for urn in sorted({*then, *now}):
            for path, old, new in changes(then.get(urn), now.get(urn)):
                yield f"{stack} {urn} {path or '(resource)'}: {_short(old)} -> {_short(new)}"


def changes(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the innermost paths at which two JSON values differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from changes(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, f"{path}[{index}]")
    elif before != after or type(before) is not type(after):
        yield path, before, after


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


def main(arguments: Sequence[str] | None = None) -> int:
    """Dump or compare graphs. The exit code is 1 if two dumps differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.graphs", description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    dump = verbs.add_parser("dump", help="preview every stack of a checkout and write its graphs")
    dump.add_argument("out", type=Path)
    dump.add_argument("--root", type=Path, default=ROOT, help="the checkout whose program runs (default: this one)")
    dump.add_argument("--stack", action="append", help="only this stack; may be repeated")
    compare = verbs.add_parser("compare", help="print every difference of two dumps")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    parsed = parser.parse_args(arguments)
    if parsed.verb == "dump":
        root = parsed.root.resolve()
        stacks = {stack: as_json(preview_tree(root, stack).graph) for stack in parsed.stack or previewable(root)}
        parsed.out.write_text(json.dumps(stacks, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        for stack, resources in stacks.items():
            sys.stdout.write(f"{stack}: {len(resources)} resources\n")
        return 0
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (parsed.before, parsed.after))
    lines = list(differences(before, after))
    for line in lines:
        sys.stdout.write(line + "\n")
    resources = sum(len(stack) for stack in before.values())
    sys.stdout.write(f"{len(lines)} differences in {resources} resources of {len(before)} stacks\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
