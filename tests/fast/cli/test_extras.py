"""The extras of the package: the message of a command names the extra with the missing module."""

from __future__ import annotations

import ast
import functools
import re
import sys
import types
from collections.abc import Mapping
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from agentenv.cli import main as cli
from agentenv.cli.extras import EXTRAS, extra_of

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("agentenv", "components", "policies")
# What Pulumi brings, boto3 brings, and FastAPI brings
BROUGHT = {"google": "pulumi", "grpc": "pulumi", "botocore": "boto3", "jmespath": "boto3", "pydantic_core": "pydantic"}
BROUGHT |= {"starlette": "fastapi"}
# Written by `make generate`, in a checkout
ONLY_GENERATED = {"grafana_foundation_sdk"}


def required() -> dict[str, set[str]]:
    """Return the required distributions by extra, with an empty name for those without an extra."""
    found: dict[str, set[str]] = {}
    for line in requires("agent-environment") or ():
        name = re.match(r"[\w.-]+", line)
        extra = re.search(r"extra == '([\w-]+)'", line)
        assert name
        found.setdefault(extra[1] if extra else "", set()).add(name[0].lower())
    return found


@functools.cache
def installed() -> Mapping[str, list[str]]:
    """Return the distributions with each module; reading all of them takes a second."""
    return packages_distributions()


def distributions(module: str) -> set[str]:
    """Return the distributions with a module, by their name or by that of the distribution that requires them."""
    found = {name.lower().replace("_", "-") for name in installed().get(module, ())}
    return found | ({BROUGHT[module]} if module in BROUGHT else set())


@functools.cache
def imported() -> frozenset[str]:
    """Return every third-party module that the package imports."""
    names: set[str] = set()
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
    return frozenset({name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"agentenv"})


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_the_modules_that_are_listed_for_it(extra: str) -> None:
    for module in EXTRAS[extra]:
        assert distributions(module) & required()[extra], module


def test_every_imported_module_is_required_or_of_an_extra() -> None:
    of_extras = {module for modules in EXTRAS.values() for module in modules}
    always = {module for module in imported() if distributions(module) & required()[""]}
    assert imported() - of_extras - always == ONLY_GENERATED


def test_a_missing_module_of_no_extra_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: object) -> int:
        raise ModuleNotFoundError("No module named 'agentenv.nowhere'", name="agentenv.nowhere")

    module = types.ModuleType("faulty", "Do nothing.")
    module.__dict__.update(add_arguments=lambda _: None, run=run)
    monkeypatch.setitem(sys.modules, "faulty", module)
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        cli.run_command(cli.Command("faulty", "faulty", ""), [])


def test_the_extra_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def lacking(*_: object) -> int:
        raise ModuleNotFoundError("No module named 'lightkube.core'", name="lightkube.core")

    monkeypatch.setattr(cli, "_parse_and_run", lacking)
    assert cli.run_command(cli.Command("releases", "", ""), ["--json"]) == cli.FAILED
    output = capsys.readouterr()
    assert (
        output.err == "agentenv releases: lightkube.core is not installed: pip install 'agent-environment[service]'\n"
    )
    assert output.out == '{"error": "lightkube.core is not installed: pip install \'agent-environment[service]\'"}\n'


@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("fastapi", "", "service"),
        ("fastapi", "dev", "dev"),
        ("psutil", "rehearsal", "rehearsal"),
        ("moto", "dev", "rehearsal"),
        ("matplotlib", "dev", "reports"),
        ("agentenv.nowhere", "dev", None),
    ],
)
def test_the_extra_of_a_command_is_named_where_it_installs_the_module(
    module: str, command: str, extra: str | None
) -> None:
    assert extra_of(module, command) == extra


def test_larger_extras_install_the_smaller_ones() -> None:
    assert required()["service"] < required()["dev"] < required()["rehearsal"]
