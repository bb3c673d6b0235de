"""Names in the code are the field's own: the worst words of the first version do not come back."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFUSED = {
    *("told", "tell", "tells", "telling", "said", "say", "says", "saying", "asked", "ask", "asks", "asking"),
    *("doors", "standing", "stood", "whoever", "whose", "wanted", "written", "made", "given", "kept", "found_", "one"),
}
# Refused as words within names of tests and fixtures, which say what holds.
REFUSED_IN_TESTS = {
    *("told", "tell", "tells", "said", "say", "says", "asked", "ask", "asks", "stands", "standing", "stood"),
    *("whoever", "whose", "nobody", "somebody", "anybody", "everybody", "door", "doors", "kept", "heard", "patience"),
    *("whatever", "sleeps", "asleep", "woken", "things"),
}
# Names that cannot change, by file, with the reason.
EXCEPTIONS = {
    ("agentenv/client/api.py", "kept"): "a field of the service's JSON",
    ("agentenv/service/http/schemas.py", "asked"): "a field of the service's JSON",
    ("agentenv/service/http/schemas.py", "kept"): "a field of the service's JSON",
    ("agentenv/cli/commands/rehearse.py", "kept"): "a key of the rehearsal's JSON report",
    ("agentenv/rehearsal/scenario/scenario.py", "kept"): "a key of the rehearsal's JSON report",
}


@functools.cache
def names_of_modules() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Return the names in each module, and those of its tests and fixtures, by path.

    There is one tree at a time: all of them would be millions of objects, which every collection of garbage visits.
    """
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    for path in listed.split():
        if (ROOT / path).is_file():
            nodes = list(ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))))
            found[path] = frozenset(names(nodes)), frozenset(names_of_tests(nodes) if path.startswith("tests/") else ())
    return found


def names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names of variables, attributes, arguments, functions and classes.

    `one` may be the variable of a comprehension on a single line.
    """
    kinds = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    short = (node for node in nodes if isinstance(node, kinds) and node.lineno == node.end_lineno)
    variables = {name for node in short for loop in node.generators for name in ast.walk(loop.target)}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                if not (name == "one" and node in variables):
                    yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def names_of_tests(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names of tests and fixtures."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
            node.name.startswith("test_") or any("fixture" in ast.unparse(each) for each in node.decorator_list)
        ):
            yield node.name


def test_names_are_the_fields_own() -> None:
    modules = names_of_modules()
    assert {path.partition("/")[0] for path in modules} >= {"agentenv", "bench", "components", "policies", "tests"}
    refused = {(path, name) for path, (found, _) in modules.items() for name in found if is_refused(name)}
    assert refused - EXCEPTIONS.keys() == set()
    assert EXCEPTIONS.keys() - refused == set(), "an exception is no longer needed"


def test_names_of_tests_have_no_refused_words() -> None:
    tests = [(path, name) for path, (_, of_tests) in names_of_modules().items() for name in of_tests]
    assert len(tests) > 1000
    assert [(path, name) for path, name in tests if REFUSED_IN_TESTS & set(name.split("_"))] == []


def is_refused(name: str) -> bool:
    """Return whether a name is refused, also as a private name or as a constant."""
    return name.lower() in REFUSED or name.strip("_").lower() in REFUSED
