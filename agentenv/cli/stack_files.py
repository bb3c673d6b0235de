"""Stack files: where they are, and every mistake in one with the line it stands on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import Refusal
from agentenv.cli.stack_yaml import Document, Place, read_document

if TYPE_CHECKING:
    from pathlib import Path

    from agentenv.config import Mistake, Settings

FOLDER = "stacks"
STACK_FILE = re.compile(r"Pulumi\.(?P<stack>.+)\.ya?ml")

# What the engine keeps in a stack file beside our configuration.
TOP_LEVEL = ("config", "environment", "secretsprovider", "encryptedkey", "encryptionsalt")


@dataclass(frozen=True)
class Located:
    """A mistake with the line it stands on."""

    line: int
    path: str
    found: str
    allowed: str
    hint: str


def all_stack_files(root: Path) -> list[Path]:
    """Every stack file of the project."""
    found = sorted(path for path in (root / FOLDER).glob("Pulumi.*") if STACK_FILE.fullmatch(path.name))
    if not found:
        raise Refusal(f"there are no stack files in {root / FOLDER}; one is called Pulumi.<stack>.yaml")
    return found


def stack_file(root: Path, stack: str) -> Path:
    """The file of a stack, which may not exist."""
    return root / FOLDER / f"Pulumi.{stack}.yaml"


def stack_of(path: Path) -> str:
    """The stack that a file belongs to, by its name."""
    match = STACK_FILE.fullmatch(path.name)
    return match["stack"] if match else path.stem


def mistakes_in(path: Path, stack: str) -> list[Located]:
    """Every mistake in a stack file, in the order of its lines."""
    document = read_document(path)
    found = [
        Located(wrong.line, _path(wrong.place), wrong.found, wrong.allowed, wrong.hint) for wrong in document.mistakes
    ]
    # A text that could not be read to its end says nothing of what stands after it.
    if document.value is not None and not any(wrong.place == () for wrong in document.mistakes):
        reported = {mistake.path for mistake in found}
        found += [mistake for mistake in _in_values(document, stack) if mistake.path not in reported]
    return sorted(found, key=lambda mistake: mistake.line)


def settings_of_file(path: Path, stack: str) -> Settings | None:
    """Return the settings in a stack file, None where this version cannot read them."""
    from agentenv.config import Mistakes, read

    document = read_document(path)
    if document.mistakes or not isinstance(document.value, dict):
        return None
    try:
        return read(document.value.get("config") or {}, stack)
    except Mistakes:
        return None


def _in_values(document: Document, stack: str) -> list[Located]:
    from agentenv.config import Mistakes, read
    from agentenv.config.mistakes import nearest, shown

    value = document.value
    if not isinstance(value, dict):
        return [Located(1, "stack file", shown(value), "a mapping with the key config", "")]
    found: list[Located] = []
    for key in value:
        if key not in TOP_LEVEL:
            hint = nearest(str(key), TOP_LEVEL)
            if not hint and ":" in str(key):
                hint = "it belongs under config, indented"
            line = document.line((key if isinstance(key, str | int) else str(key),))
            found.append(Located(line, str(key), f"the key {shown(key)}", ", ".join(TOP_LEVEL), hint))
    config: Any = value.get("config")
    try:
        read({} if config is None else config, stack)
    except Mistakes as mistakes:
        # An ESC environment may bring the region; it is not read here, because that takes the service that keeps it.
        elsewhere = ("region",) if value.get("environment") else None
        found += [
            _located(document, config, mistake)
            for mistake in mistakes.mistakes
            if not (mistake.place == elsewhere and mistake.found == "nothing")
        ]
    return found


def _located(document: Document, config: object, mistake: Mistake) -> Located:
    keys: list[str] = [str(key) for key in config] if isinstance(config, dict) else []
    first = mistake.path if mistake.path in keys else _key_of(mistake, keys)
    line = document.line(("config", first, *mistake.place[1:]) if first else ("config",))
    return Located(line, mistake.path, mistake.found, mistake.allowed, mistake.hint)


def _key_of(mistake: Mistake, keys: list[str]) -> str | None:
    """The key of the configuration that a mistake stands under, in the older spelling too."""
    name = str(mistake.place[0]) if mistake.place else ""
    return next((key for key in keys if key.rpartition(":")[2] == name), None)


def _path(place: Place) -> str:
    """A place in the text as the paths of the settings are written."""
    tokens = list(place[1:] if place[:1] == ("config",) else place)
    path = "".join(f"[{token}]" if isinstance(token, int) else f".{token}" for token in tokens)
    return path.removeprefix(".") or ("config" if place else "stack file")
