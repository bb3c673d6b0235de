"""Read the YAML of a stack file as the engine does, with the line of every value.

PyYAML's own loader follows YAML 1.1, where `no` is false and `12:30` a number; the engine's does not. It also silently
drops the first of two equal keys, which the engine rejects. So only PyYAML's parser is used here. Its events become
values without recursion, so that no nesting can exhaust the stack.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

Place = tuple[str | int, ...]

MAX_DEPTH = 100
STDIN = Path("-")

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE, _FALSE = {"true", "True", "TRUE"}, {"false", "False", "FALSE"}
_INTEGER = re.compile(r"[-+]?(0x[0-9a-fA-F_]+|0o?[0-7_]+|0b[01_]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ].*)?")
_ODD_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class YamlMistake:
    """A mistake in the YAML text itself."""

    line: int
    found: str
    allowed: str
    hint: str = ""
    place: Place = ()


@dataclass
class Document:
    """The value of a file, the line of each place in it, and the mistakes in its text."""

    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    mistakes: list[YamlMistake] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """Return the line of a place, or of its nearest parent in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read_document(path: Path) -> Document:
    """Read a file, or standard input. A file that cannot be read becomes a document with a mistake."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except FileNotFoundError:
        return _failed_document(1, "no such file", "a stack file")
    except OSError as error:
        return _failed_document(1, error.strerror or type(error).__name__, "a file that can be read")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return _failed_document(line, f"the byte 0x{data[error.start]:02x}", "text in UTF-8", "save the file as UTF-8")
    return parse(text)


def parse(text: str) -> Document:
    """Parse a YAML text into a document."""
    builder = _Builder()
    if unprintable := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text[: unprintable.start()].count("\n") + 1
        return _failed_document(line, f"the character U+{ord(unprintable[0]):04X}", "printable characters", "remove it")
    try:
        for event in _events(text):
            builder.handle(event)
            if builder.stopped:
                break
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        builder.add_mistake(line, error.problem or "text that is not YAML", "YAML", _hint(text, line))
    if not builder.document.mistakes and builder.document.value is None:
        builder.add_mistake(1, "an empty file", "a mapping with the key config")
    return builder.document


def _events(text: str) -> Iterator[yaml.Event]:
    return yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _hint(text: str, line: int) -> str:
    lines = text.splitlines()
    if line <= len(lines) and "\t" in lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]:
        return "indent with spaces: YAML takes no tabs"
    return "look at brackets, quotes and indentation on this line and the one before"


def _failed_document(line: int, found: str, allowed: str, hint: str = "") -> Document:
    return Document(mistakes=[YamlMistake(line, found, allowed, hint)])


@dataclass
class _Frame:
    """A mapping or list whose end has not been read yet."""

    value: dict[Any, Any] | list[Any]
    place: Place
    line: int
    anchor: str | None
    key: Any = None
    has_key: bool = False
    key_lines: dict[Any, int] = field(default_factory=dict)
    merged: list[Any] = field(default_factory=list)


_UNFINISHED = object()


class _Builder:
    """Builds one value from parser events."""

    def __init__(self) -> None:
        self.document = Document()
        self.stopped = False
        self._frames: list[_Frame] = []
        self._anchors: dict[str, Any] = {}
        self._documents = 0

    def add_mistake(self, line: int, found: str, allowed: str, hint: str = "", place: Place = ()) -> None:
        self.document.mistakes.append(YamlMistake(line, found, allowed, hint, place))

    def handle(self, event: yaml.Event) -> None:
        """Handle the next event."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self.add_mistake(line, "a second document", "one document a file", "remove the line ---")
                self.stopped = True
        elif isinstance(event, yaml.ScalarEvent):
            self._add_value(self._scalar(event, line), line, event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._add_value(self._aliased(event, line), line, None)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(event, line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._end()

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, line: int) -> None:
        if len(self._frames) >= MAX_DEPTH:
            self.add_mistake(line, "more nesting than a stack file has", f"at most {MAX_DEPTH} levels")
            self.stopped = True
            return
        if event.anchor:
            self._anchors[event.anchor] = _UNFINISHED
        value: dict[Any, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._frames.append(_Frame(value, self._next_place(), line, event.anchor))

    def _end(self) -> None:
        frame = self._frames.pop()
        if isinstance(frame.value, dict):
            for mapping in frame.merged:
                for key, value in mapping.items():
                    frame.value.setdefault(key, value)
        self._add_value(frame.value, frame.line, frame.anchor)

    def _next_place(self) -> Place:
        if not self._frames:
            return ()
        frame = self._frames[-1]
        if isinstance(frame.value, list):
            return (*frame.place, len(frame.value))
        return (*frame.place, frame.key if isinstance(frame.key, str | int) else str(frame.key))

    def _add_value(self, value: Any, line: int, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = value
        if not self._frames:
            self.document.value = value
            self.document.lines[()] = line
            return
        frame = self._frames[-1]
        if isinstance(frame.value, list):
            self.document.lines[*frame.place, len(frame.value)] = line
            frame.value.append(value)
        elif not frame.has_key:
            self._add_key(frame, value, line)
        else:
            self._add_entry(frame, value, line)

    def _add_key(self, frame: _Frame, key: Any, line: int) -> None:
        if isinstance(key, dict | list):
            self.add_mistake(line, "a mapping or list as a key", "keys that are text", place=frame.place)
            key = f"line {line}"
        elif key in frame.key_lines:
            earlier = frame.key_lines[key]
            self.add_mistake(
                line, f"the key '{key}' twice", "each key once", f"it is on line {earlier} too", frame.place
            )
        frame.key, frame.has_key = key, True
        frame.key_lines[key] = line

    def _add_entry(self, frame: _Frame, value: Any, line: int) -> None:
        key, frame.has_key = frame.key, False
        place = self._next_place()
        if key == "<<":
            merged = value if isinstance(value, list) else [value]
            if all(isinstance(mapping, dict) for mapping in merged):
                frame.merged.extend(merged)
                return
            self.add_mistake(line, "<< with something else", "<< with an alias of a mapping", place=frame.place)
            return
        self.document.lines[place] = frame.key_lines[key]
        assert isinstance(frame.value, dict)  # noqa: S101 - the caller has handled lists
        frame.value[key] = value

    def _aliased(self, event: yaml.AliasEvent, line: int) -> Any:
        value = self._anchors.get(event.anchor or "", self)
        if value is self or value is _UNFINISHED:
            problem = "before it exists" if value is self else "from within itself"
            self.add_mistake(line, f"*{event.anchor} {problem}", "an anchor defined above", place=self._next_place())
            return None
        return value

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Any:
        tag = event.tag or ""
        if tag in {f"{_TAG}str", "!"} or (not tag and not event.implicit[0]):
            return event.value
        if tag and tag not in {f"{_TAG}{name}" for name in ("int", "float", "bool", "null")}:
            self.add_mistake(
                line, f"the tag {tag.replace(_TAG, '!!')}", "values without tags", place=self._next_place()
            )
            return None
        return resolve(event.value)


def resolve(text: str) -> Any:  # noqa: PLR0911 - one return for each kind of scalar
    """Return the value of a scalar without quotes."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) <= 1000:
        if _INTEGER.fullmatch(text):
            digits = text.replace("_", "")
            legacy = re.fullmatch(r"([-+]?)0([0-7]+)", digits)
            return int(f"{legacy[1]}0o{legacy[2]}", 8) if legacy else int(digits, 0)
        if _FLOAT.fullmatch(text):
            number = float(text.replace("_", ""))
            # The engine stores configuration as JSON, where 2.0 is 2.
            return int(number) if number.is_integer() and abs(number) < 2**53 else number
        if _DATE.fullmatch(text):
            # The engine would reformat it, so it has to be quoted: every setting rejects a date.
            with contextlib.suppress(ValueError):
                return datetime.date.fromisoformat(text[:10])
        if _ODD_FLOAT.fullmatch(text):
            return float(text.replace(".", ""))
    return text
