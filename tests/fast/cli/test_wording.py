"""No refusal of the service reaches the terminal with a route in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentenv.cli.workspaces.wording import in_words

ROOT = Path(__file__).resolve().parents[3]
ROUTE = re.compile(r"\b(?:GET|PUT|POST|PATCH|DELETE)\b|/v1/|Authorization")
# What programs alone get: the routes of sandboxes, of hosts and of the e2b clients
OTHERS = ("credentials", "e2b", "gateway", "mcp")


def texts(node: ast.AST) -> Iterator[str]:
    """Yield the texts below a node; a formatted one as a whole, with a word in place of each value."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "workspace" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def refusals() -> Iterator[tuple[str, str]]:
    """Yield the texts of every `Problem` that the service raises, each with its file."""
    for path in sorted((ROOT / "agentenv" / "service").rglob("*.py")):
        if path.parent.name in OTHERS:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem":
                yield from ((path.name, text) for text in texts(node))


def test_refusals_have_no_routes_in_words_of_the_command_line() -> None:
    found = list(refusals())
    assert any(ROUTE.search(text) for _, text in found)
    assert not [(name, text) for name, text in found if ROUTE.search(in_words(text))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "only operators do; leave out `owner` and `everybody`",
            "only operators do; leave out `--owner` and `--everybody`",
        ),
        ("body.idle_after: too small", "--idle-after: too small"),
        ("restore it by POST to /v1/workspaces/w-1/resume, or", "restore it with `agentenv workspace resume w-1`, or"),
        ("`mine` is no option", "`mine` is no option"),
    ],
)
def test_fields_and_routes_become_options_and_commands(text: str, words: str) -> None:
    assert in_words(text) == words
