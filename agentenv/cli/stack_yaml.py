"""Reads the YAML of a stack file as the engine does, and remembers the line of everything in it.

PyYAML's own loader follows YAML 1.1, where `no` is false and `12:30` a number; the engine's does not. It also drops the
first of two equal keys in silence, which the engine refuses. So only PyYAML's parser is used here, and its events are
turned into values one by one, without recursion, so that no nesting can exhaust the stack.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Place = tuple[str | int, ...]

DEEPEST = 100

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE, _FALSE = {"true", "True", "TRUE"}, {"false", "False", "FALSE"}
_INTEGER = re.compile(r"[-+]?(0x[0-9a-fA-F_]+|0o?[0-7_]+|0b[01_]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ].*)?")
_ODD_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class YamlMistake:
    """What is wrong with the text itself, whatever it says."""

    line: int
    found: str
    allowed: str
    hint: str = ""
    place: Place = ()


@dataclass
class Document:
    """The value of a file, the line of each place in it, and what is wrong with its text."""

    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    mistakes: list[YamlMistake] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest thing around it that stands in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read_document(path: Path) -> Document:
    """Read a file; one that cannot be read is a document with a mistake."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return _wrong(1, "no such file", "a stack file")
    except OSError as error:
        return _wrong(1, error.strerror or type(error).__name__, "a file that can be read")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return _wrong(line, f"the byte 0x{data[error.start]:02x}", "text in UTF-8", "save the file as UTF-8")
    return parse(text)


def parse(text: str) -> Document:
    """The document that a text holds."""
    builder = _Builder()
    if unprintable := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text[: unprintable.start()].count("\n") + 1
        return _wrong(line, f"the character U+{ord(unprintable[0]):04X}", "printable characters", "remove it")
    try:
        for event in _events(text):
            builder.take(event)
            if builder.stopped:
                break
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        builder.wrong(line, error.problem or "text that is not YAML", "YAML", _hint(text, line))
    if not builder.document.mistakes and builder.document.value is None:
        builder.wrong(1, "an empty file", "a mapping with the key config")
    return builder.document


def _events(text: str) -> Iterator[yaml.Event]:
    return yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _hint(text: str, line: int) -> str:
    lines = text.splitlines()
    if line <= len(lines) and "\t" in lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]:
        return "indent with spaces: YAML takes no tabs"
    return "look at brackets, quotes and indentation on this line and the one before"


def _wrong(line: int, found: str, allowed: str, hint: str = "") -> Document:
    return Document(mistakes=[YamlMistake(line, found, allowed, hint)])


@dataclass
class _Frame:
    """A mapping or list that has begun."""

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
    """Turns events into one value."""

    def __init__(self) -> None:
        self.document = Document()
        self.stopped = False
        self._frames: list[_Frame] = []
        self._anchors: dict[str, Any] = {}
        self._documents = 0

    def wrong(self, line: int, found: str, allowed: str, hint: str = "", place: Place = ()) -> None:
        self.document.mistakes.append(YamlMistake(line, found, allowed, hint, place))

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self.wrong(line, "a second document", "one document a file", "remove the line ---")
                self.stopped = True
        elif isinstance(event, yaml.ScalarEvent):
            self._put(self._scalar(event, line), line, event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._put(self._aliased(event, line), line, None)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(event, line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._end()

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, line: int) -> None:
        if len(self._frames) >= DEEPEST:
            self.wrong(line, "more nesting than a stack file has", f"at most {DEEPEST} levels")
            self.stopped = True
            return
        if event.anchor:
            self._anchors[event.anchor] = _UNFINISHED
        made: dict[Any, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._frames.append(_Frame(made, self._next_place(), line, event.anchor))

    def _end(self) -> None:
        frame = self._frames.pop()
        if isinstance(frame.value, dict):
            for mapping in frame.merged:
                for key, value in mapping.items():
                    frame.value.setdefault(key, value)
        self._put(frame.value, frame.line, frame.anchor)

    def _next_place(self) -> Place:
        if not self._frames:
            return ()
        frame = self._frames[-1]
        if isinstance(frame.value, list):
            return (*frame.place, len(frame.value))
        return (*frame.place, frame.key if isinstance(frame.key, str | int) else str(frame.key))

    def _put(self, value: Any, line: int, anchor: str | None) -> None:
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
            self._key(frame, value, line)
        else:
            self._entry(frame, value, line)

    def _key(self, frame: _Frame, key: Any, line: int) -> None:
        if isinstance(key, dict | list):
            self.wrong(line, "a mapping or list as a key", "keys that are text", place=frame.place)
            key = f"line {line}"
        elif key in frame.key_lines:
            earlier = frame.key_lines[key]
            self.wrong(line, f"the key '{key}' twice", "each key once", f"it stands on line {earlier} too", frame.place)
        frame.key, frame.has_key = key, True
        frame.key_lines[key] = line

    def _entry(self, frame: _Frame, value: Any, line: int) -> None:
        key, frame.has_key = frame.key, False
        place = self._next_place()
        if key == "<<":
            merged = value if isinstance(value, list) else [value]
            if all(isinstance(one, dict) for one in merged):
                frame.merged.extend(merged)
                return
            self.wrong(line, "<< with something else", "<< with an alias of a mapping", place=frame.place)
            return
        self.document.lines[place] = frame.key_lines[key]
        assert isinstance(frame.value, dict)  # noqa: S101 - lists were dealt with by the caller
        frame.value[key] = value

    def _aliased(self, event: yaml.AliasEvent, line: int) -> Any:
        value = self._anchors.get(event.anchor or "", self)
        if value is self or value is _UNFINISHED:
            what = "before it exists" if value is self else "from within itself"
            self.wrong(line, f"*{event.anchor} {what}", "an anchor that stands above", place=self._next_place())
            return None
        return value

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Any:
        tag = event.tag or ""
        if tag in {f"{_TAG}str", "!"} or (not tag and not event.implicit[0]):
            return event.value
        if tag and tag not in {f"{_TAG}{name}" for name in ("int", "float", "bool", "null")}:
            self.wrong(line, f"the tag {tag.replace(_TAG, '!!')}", "values without tags", place=self._next_place())
            return None
        return resolve(event.value)


def resolve(text: str) -> Any:  # noqa: PLR0911 - a line a kind of scalar
    """What a text without quotes stands for."""
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
            # The engine keeps configuration as JSON, where 2.0 is 2.
            return int(number) if number.is_integer() and abs(number) < 2**53 else number
        if _DATE.fullmatch(text):
            # The engine makes another text of it, so it has to be quoted; a date is refused wherever it stands.
            with contextlib.suppress(ValueError):
                return datetime.date.fromisoformat(text[:10])
        if _ODD_FLOAT.fullmatch(text):
            return float(text.replace(".", ""))
    return text
