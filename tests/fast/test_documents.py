"""Links and paths in documents and docstrings exist."""

from __future__ import annotations

import ast
import html
import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from agentenv.cli.main import COMMANDS, CommandModule, command_parser
from agentenv.cli.main import main as run_command
from agentenv.config import read

ROOT = Path(__file__).resolve().parents[2]
FILES = subprocess.check_output(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
).split()
PAGES = sorted(ROOT / name for name in FILES if name.endswith(".md"))
# A path begins with a folder at the top; `{a,b}` stands for two names, `*` and `<name>` for any
TOP = "|".join(sorted({re.escape(name.partition("/")[0]) for name in FILES if "/" in name}))
PATH = re.compile(rf"(?<![\w./:@<-])((?:{TOP})/[\w./{{}},*<>-]*[\w/>*}}])")
OLD_PATHS = ROOT / "docs" / "renamed.md"
# A project writes the file when it needs one
OPTIONAL = {"policies/allowed_losses.yaml", "stacks/Pulumi.team.yaml"}
COMMAND = re.compile(r"^ *\$ (?:\.venv/bin/)?agentenv (.+)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    missing = [target for target in local if not (page.parent / target).exists()]
    assert not missing
    assert all(target.startswith("https://") for target in targets if "://" in target)


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\(([a-z-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8")))
    assert listed == {path.name for path in folder.glob("*.md")} - {"README.md"}


def commands() -> Iterator[tuple[str, str]]:
    """The `agentenv` command lines of each page, with the name of the page."""
    for page in PAGES:
        for line in COMMAND.findall(page.read_text(encoding="utf-8")):
            yield str(page.relative_to(ROOT)), line


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())))
def test_a_command_line_in_a_document_is_accepted_by_its_parser(page: str, line: str) -> None:
    name, *arguments = shlex.split(line.partition(" # ")[0])
    command = next(row for row in COMMANDS if row.name == name)
    command_parser(command, cast("CommandModule", importlib.import_module(command.module))).parse_args(arguments)


def test_the_stack_file_of_the_tutorials_is_valid() -> None:
    blocks: list[str] = []
    for name in ("first-environment", "first-class"):
        page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
        blocks += re.findall(r"```yaml\n(.+?)```", page, re.DOTALL)
    assert len(blocks) == 2
    settings = read(yaml.safe_load("".join(blocks))["config"], "team")
    assert [sandbox_class.name for sandbox_class in settings.sandbox_classes] == ["standard"]


def test_the_estimate_of_the_first_tutorial_is_printed_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "tutorials" / "first-environment.md").read_text(encoding="utf-8")
    file = tmp_path / "Pulumi.team.yaml"
    file.write_text(re.findall(r"```yaml\n(.+?)```", page, re.DOTALL)[0], encoding="utf-8")
    assert run_command(["estimate", "--file", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    sample = page.partition("agentenv estimate --stack team\n")[2].partition("```")[0].splitlines()
    assert [line for line in sample if line != "…" and line not in lines] == []


STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def texts() -> Iterator[tuple[str, str]]:
    """The text of each page, and the docstrings of each module, with the name of the file."""
    for page in PAGES:
        if page != OLD_PATHS:
            yield str(page.relative_to(ROOT)), html.unescape(page.read_text(encoding="utf-8"))
    for name in (name for name in FILES if name.endswith(".py") and (ROOT / name).is_file()):
        nodes: list[ast.AST] = [ast.parse((ROOT / name).read_text(encoding="utf-8"))]
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, ast.get_docstring(node) or ""
            # Definitions are statements, so no expression is visited.
            nodes += [each for each in ast.iter_child_nodes(node) if isinstance(each, STATEMENTS)]


def missing_paths(text: str) -> list[str]:
    """The paths in a text that lead nowhere."""
    return [path for path in PATH.findall(text) if path not in OPTIONAL and not all(map(exists, spelled_out(path)))]


def spelled_out(path: str) -> list[str]:
    """The paths that one with `{a,b}` stands for."""
    if choice := re.search(r"\{([^{}]+)\}", path):
        return [path.replace(choice[0], name) for name in choice[1].split(",")]
    return [path]


def exists(path: str) -> bool:
    return any(ROOT.glob(re.sub(r"<[^<>]+>", "*", path).rstrip("/")))


def test_every_path_in_a_document_or_a_docstring_exists() -> None:
    assert [(name, path) for name, text in texts() for path in missing_paths(text)] == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`agentenv/core/prices/<region>.toml`, tests/fast/cli/conftest.py.", ["tests/fast/cli/conftest.py"]),
        ("`agentenv/core/{prices,noises}/`", ["agentenv/core/{prices,noises}/"]),
        ("`docs/*.md` and (docs/*.txt)", ["docs/*.txt"]),
        ("https://example.com/docs/nowhere.md, ../docs/nowhere.md", []),
    ],
)
def test_a_path_that_leads_nowhere_is_found(text: str, missing: list[str]) -> None:
    assert missing_paths(text) == missing
