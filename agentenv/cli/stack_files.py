"""Find stack files, read their settings, and list every mistake in them with its line."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import CommandError
from agentenv.cli.project import project, project_in
from agentenv.cli.stack_yaml import STDIN, Document, Place, read_document
from agentenv.cli.terminal_text import plural

if TYPE_CHECKING:
    from datetime import date

    from agentenv.config import Mistake, Settings

STACK_FILE = re.compile(r"Pulumi\.(?P<stack>.+)\.ya?ml")

# The keys that the engine has in a stack file beside the configuration.
TOP_LEVEL = ("config", "environment", "secretsprovider", "encryptedkey", "encryptionsalt")


@dataclass(frozen=True)
class LocatedMistake:
    """A mistake in a stack file, with its line."""

    line: int
    path: str
    found: str
    allowed: str
    hint: str


@dataclass(frozen=True)
class LocatedWarning:
    """A warning about a stack file, with its line."""

    line: int
    path: str
    text: str


@dataclass(frozen=True)
class StackFile:
    """A stack file that was read."""

    document: Document
    settings: Settings | None  # None where this version cannot read them
    mistakes: list[LocatedMistake]


def all_stack_files(root: Path) -> list[Path]:
    """Return every stack file of the project in a folder."""
    folder = _folder(root)
    found = sorted(path for path in folder.glob("Pulumi.*") if STACK_FILE.fullmatch(path.name))
    if not found:
        raise CommandError(f"there are no stack files in {folder}; one is called Pulumi.<stack>.yaml")
    return found


def stack_file(root: Path, stack: str) -> Path:
    """Return the path of the file of a stack of the project in a folder. It may not exist."""
    path = _folder(root) / f"Pulumi.{stack}.yaml"
    return path if path.is_file() or not (other := path.with_suffix(".yml")).is_file() else other


def _folder(root: Path) -> Path:
    found = project_in(root)
    return root if found is None else found.stack_files


def stack_name(path: Path) -> str:
    """Return the stack that a file belongs to, by the name of the file."""
    if path == STDIN:
        return "stdin"
    match = STACK_FILE.fullmatch(path.name)
    return match["stack"] if match else path.stem


def selected_files(stack: str | None, file: Path | None) -> list[tuple[Path, str]]:
    """Return the files that --stack or --file select, each with its stack. Without either, all of the project."""
    if file is not None:
        if file != STDIN and file.exists() and not file.is_file():
            raise CommandError(f"{file} is not a regular file")  # reading a pipe would block
        return [(file, stack or stack_name(file))]
    folder = project().folder
    if stack is None:
        return [(path, stack_name(path)) for path in all_stack_files(folder)]
    if "/" in stack or "\\" in stack:
        raise CommandError(f"'{stack}' is not the name of a stack; give --file for a file elsewhere")
    path = stack_file(folder, stack)
    if not path.is_file():
        existing = ", ".join(stack_name(other) for other in all_stack_files(folder))
        raise CommandError(f"there is no {display_path(path)}; there are stack files for {existing}")
    return [(path, stack)]


def selected_settings(stack: str | None, file: Path | None) -> Settings:
    """Return the settings of the file that --stack or --file select. A file with mistakes is a `CommandError`."""
    ((path, name),) = selected_files(stack, file)
    read = read_stack_file(path, name)
    if read.settings is not None:
        return read.settings
    if read.mistakes:
        option = f"--file {file}" if file else f"--stack {stack}"
        count = plural(len(read.mistakes), "mistake")
        raise CommandError(f"{display_path(path)} has {count}; see `agentenv check {option}`")
    raise CommandError(f"{display_path(path)} takes its region from an ESC environment; set aws:region in the file")


def display_path(path: Path) -> str:
    """Return a path relative to the current folder, where it is below that."""
    if path == STDIN:
        return "standard input"
    return os.path.relpath(path) if path.absolute().is_relative_to(Path.cwd()) else str(path)


def read_stack_file(path: Path, stack: str) -> StackFile:
    """Read a stack file, with every mistake in it in the order of its lines."""
    document = read_document(path)
    found = [
        LocatedMistake(mistake.line, _settings_path(mistake.place), mistake.found, mistake.allowed, mistake.hint)
        for mistake in document.mistakes
    ]
    settings: Settings | None = None
    # Where the text could not be parsed to its end, the settings after that point are unknown.
    if document.value is not None and not any(mistake.place == () for mistake in document.mistakes):
        reported = {mistake.path for mistake in found}
        settings, mistakes = _read_settings(document, stack)
        found += [mistake for mistake in mistakes if mistake.path not in reported]
    return StackFile(document, None if document.mistakes else settings, sorted(found, key=lambda mistake: mistake.line))


def settings_of_file(path: Path, stack: str) -> Settings | None:
    """Return the settings in a stack file, None where this version cannot read them."""
    return read_stack_file(path, stack).settings


def warnings_in(file: StackFile, today: date) -> list[LocatedWarning]:
    """Return what a stack file should change soon."""
    from agentenv.core.nodes.kubernetes_support import upgrade_warning

    if file.settings is None or not (text := upgrade_warning(file.settings.cluster, today)):
        return []
    keys: list[str] = list(file.document.value["config"])
    key = next((key for key in keys if key.rpartition(":")[2] == "cluster"), "")
    line = file.document.line(("config", key, "version") if key else ("config",))
    return [LocatedWarning(line, "agent-environment:cluster.version", text)]


def _read_settings(document: Document, stack: str) -> tuple[Settings | None, list[LocatedMistake]]:
    """Return the settings of a document, None if they cannot be read, and the mistakes in them."""
    from agentenv.config import Mistakes, read
    from agentenv.config.mistakes import nearest, shown

    value = document.value
    if not isinstance(value, dict):
        return None, [LocatedMistake(1, "stack file", shown(value), "a mapping with the key config", "")]
    found: list[LocatedMistake] = []
    for key in value:
        if key not in TOP_LEVEL:
            hint = nearest(str(key), TOP_LEVEL)
            if not hint and ":" in str(key):
                hint = "it belongs under config, indented"
            line = document.line((key if isinstance(key, str | int) else str(key),))
            found.append(LocatedMistake(line, str(key), f"the key {shown(key)}", ", ".join(TOP_LEVEL), hint))
    config: Any = value.get("config")
    try:
        return read({} if config is None else config, stack), found
    except Mistakes as mistakes:
        # An ESC environment may contain the region. It is not read here, because that takes Pulumi Cloud.
        from_environment = ("region",) if value.get("environment") else None
        found += [
            _located(document, config, mistake)
            for mistake in mistakes.mistakes
            if not (mistake.place == from_environment and mistake.found == "nothing")
        ]
    return None, found


def _located(document: Document, config: object, mistake: Mistake) -> LocatedMistake:
    keys: list[str] = [str(key) for key in config] if isinstance(config, dict) else []
    first = mistake.path if mistake.path in keys else _config_key(mistake, keys)
    line = document.line(("config", first, *mistake.place[1:]) if first else ("config",))
    return LocatedMistake(line, mistake.path, mistake.found, mistake.allowed, mistake.hint)


def _config_key(mistake: Mistake, keys: list[str]) -> str | None:
    """Return the configuration key that a mistake belongs to, with or without its namespace."""
    name = str(mistake.place[0]) if mistake.place else ""
    return next((key for key in keys if key.rpartition(":")[2] == name), None)


def _settings_path(place: Place) -> str:
    """Return a place in the document as `pulumi config set --path` spells it."""
    tokens = list(place[1:] if place[:1] == ("config",) else place)
    path = "".join(f"[{token}]" if isinstance(token, int) else f".{token}" for token in tokens)
    return path.removeprefix(".") or ("config" if place else "stack file")
