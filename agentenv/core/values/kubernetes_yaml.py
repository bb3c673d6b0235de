"""Reads Kubernetes manifests as kubectl reads them, which is neither YAML 1.1 nor YAML 1.2.

kubectl splits a file at lines that begin with `---`, parses each part with its own YAML library and turns the result
into JSON. There `y` is true, `0o17` and `017` are 15, `12:30` is text, `!Ref y` is text, and a merge key replaces what
stands above it. `tests/fast/policies/kubectl/` has what kubectl was measured to read.

Only the parser of libyaml is used, which kubectl's is a port of; PyYAML's own takes other texts. Its events become
values one by one, without recursion, so no nesting exhausts the stack.
"""

from __future__ import annotations

import base64
import codecs
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, cast

import yaml

MOST_BYTES: Final = 16 * 2**20
MOST_LEVELS: Final = 200
# What aliases may make of a document: so many values, and so many times what stands there
MOST_VALUES: Final = 100_000
MOST_TIMES: Final = 10

_TAG: Final = "tag:yaml.org,2002:"
_BINARY, _MERGE = f"{_TAG}binary", f"{_TAG}merge"
# The tags that a value without quotes is held against; all others make it text
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    f"{_TAG}bool": (bool,),
    f"{_TAG}int": (int,),
    f"{_TAG}float": (float, int),
    f"{_TAG}null": (type(None),),
    f"{_TAG}timestamp": (str,),
}
_TIMESTAMP: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")


def _cases(*words: str) -> list[str]:
    return [form for word in words for form in (word, word.title(), word.upper())]


_WORDS: Final[Mapping[str, bool | float | None]] = {
    **dict.fromkeys(_cases("y", "yes", "true", "on"), True),
    **dict.fromkeys(_cases("n", "no", "false", "off"), False),
    **dict.fromkeys(["", "~", *_cases("null")], None),
    **dict.fromkeys(_cases(".inf", "+.inf"), math.inf),
    **dict.fromkeys(_cases("-.inf"), -math.inf),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
}
_DECIMAL: Final = re.compile(r"[-+]?[1-9][0-9]{0,19}")
_BASED: Final = re.compile(r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+)|[oO]?([0-7]+)|)")
_SIGN_INSIDE: Final = re.compile(r"0b([-+][01]+)")
# With a point in front its underscores stay, and have to stand between digits
_POINT: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEAST, _MOST, _MOST_UNSIGNED = -(2**63), 2**63 - 1, 2**64 - 1
# From here on kubectl writes a number with an exponent, which the API server takes for no whole one
_EXPONENT: Final = 1e21
# A tag before a value without quotes, and an anchor before the tag; PyYAML does not tell of the tag `!`
_BREAKS: Final = r"\r\n\x85\u2028\u2029"
_PROPERTIES: Final = re.compile(rf"(?:&[\w-]+(?:\s|#[^{_BREAKS}]*(?=[{_BREAKS}]))+)?![^\s,]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TOO_DEEP: Final = f"it has more than {MOST_LEVELS} levels"


class ManifestError(ValueError):
    """Something that kubectl cannot read, or that is not read here: on which line, what, and the way out."""

    def __init__(self, line: int, problem: str, way_out: str = "") -> None:
        super().__init__(f"line {line}: {problem}{f'; {way_out}' if way_out else ''}")
        self.line = line


@dataclass(frozen=True)
class Document:
    """A document of a text: its number, its value or what is wrong with it, and its text with its first line."""

    number: int
    value: object = None
    error: ManifestError | None = None
    text: str = field(default="", repr=False)
    line: int = 1

    def line_of(self, path: Sequence[str | int]) -> int:
        """Return the line of a place in the value, or of its nearest parent."""
        try:
            node: Any = yaml.compose(self.text, Loader=yaml.CSafeLoader)
        except yaml.YAMLError:
            return self.line
        row = _content_row(node) if node is not None else 0
        for step in path:
            entry = _entry(node, step)
            if entry is None:
                break
            row, node = entry
        return self.line + row


def decode(data: bytes) -> str:
    """Return the text of a file: UTF-8, or UTF-16 where a byte order mark says so."""
    if len(data) > MOST_BYTES:
        raise ManifestError(1, f"the file has more than {MOST_BYTES >> 20} MiB", "split it")
    utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if utf_16 else "utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        kind = "UTF-16" if utf_16 else "UTF-8"
        raise ManifestError(line, f"the byte 0x{data[error.start]:02x} is not {kind}", "save it as UTF-8") from None


def values(text: str) -> Iterator[object]:
    """Yield the value of each document; raise `ManifestError` at the first that cannot be read."""
    for document in documents(text):
        if document.error:
            raise document.error
        yield document.value


def documents(text: str, *, unique_keys: bool = False) -> Iterator[Document]:
    """Yield each document of a text of YAML or JSON; one that cannot be read does not hide those after it.

    With `unique_keys`, a document with a key twice is not read: kubectl takes the last one, and the API server refuses
    it for kubectl, but not for every client.
    """
    text = text.removeprefix("\ufeff")
    number = end = 0
    if text.lstrip().startswith("{"):
        while (start := _past(text, end, _JSON_SPACE)) < len(text):
            try:
                value, end = (_UNIQUE_JSON if unique_keys else _JSON).raw_decode(text, start)
                _check_json(value)
            except (ValueError, RecursionError) as error:
                # One object may be YAML too; after two of them kubectl reads nothing but JSON
                if number > 1 or isinstance(error, _JsonError | RecursionError):
                    yield Document(number, error=_json_error(text, start, error))
                    return
                break
            yield Document(number, value, text=text[start:end], line=text.count("\n", 0, start) + 1)
            number += 1
        else:
            return
        # kubectl goes on with YAML below the line on which the object ends
        end = text.find("\n", end, _past(text, end, str.isspace)) + 1 or _past(text, end, str.isspace)
    for first, part, error in _parts(text[end:], text.count("\n", 0, end) + 1):
        yield Document(number, error=error) if error else _document(number, part, first, unique_keys)
        number += 1


# JSON


class _JsonError(ValueError):
    """Something that is JSON, and that is not read all the same."""


def _json_integer(text: str) -> int | float:
    return _plain(int(text)) if len(text) <= 20 else _json_float(text)


def _json_float(text: str) -> int | float:
    value = float(text)
    if not math.isfinite(value):
        raise _JsonError(f"the number {text[:20]} is too large")
    return _plain(value)


def _no_constant(text: str) -> object:
    raise ValueError(text)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _JsonError(_twice(next(key for key in value if keys.count(key) > 1)))
    return value


def _twice(key: str) -> str:
    return f"the key {key[:40]!r} twice in one mapping"


_JSON: Final = json.JSONDecoder(parse_int=_json_integer, parse_float=_json_float, parse_constant=_no_constant)
_UNIQUE_JSON: Final = json.JSONDecoder(
    parse_int=_json_integer, parse_float=_json_float, parse_constant=_no_constant, object_pairs_hook=_unique
)
_JSON_SPACE: Final = " \t\r\n".__contains__


def _past(text: str, start: int, space: Callable[[str], bool]) -> int:
    while start < len(text) and space(text[start]):
        start += 1
    return start


def _check_json(value: object) -> None:
    """Raise `_JsonError` for values that are nested too deeply, and for text with half a surrogate pair."""
    level: list[object] = [value]
    for _ in range(MOST_LEVELS + 1):
        below: list[object] = []
        for element in level:
            if isinstance(element, dict):
                below += [*cast("dict[object, object]", element), *cast("dict[object, object]", element).values()]
            elif isinstance(element, list):
                below += cast("list[object]", element)
            elif isinstance(element, str) and _SURROGATE.search(element):
                raise _JsonError("half of a surrogate pair in a text")
        if not below:
            return
        level = below
    raise _JsonError(_TOO_DEEP)


def _json_error(text: str, start: int, error: Exception) -> ManifestError:
    if isinstance(error, json.JSONDecodeError):
        return ManifestError(text.count("\n", 0, error.pos) + 1, f"it is no JSON: {error.msg}")
    problem = _TOO_DEEP if isinstance(error, RecursionError) else str(error)
    return ManifestError(text.count("\n", 0, start) + 1, problem)


# YAML


def _parts(text: str, line: int) -> Iterator[tuple[int, str, ManifestError | None]]:
    """Yield the parts of a text as kubectl splits it: the first line of each, and the part or an error."""
    rows = text.removesuffix("\n").split("\n")
    part: list[str] = []
    first = line
    for at, row in enumerate(rows, line):
        if row.startswith("---"):
            beside = row[3:].strip()
            bad = bool(beside) and not beside.startswith("#")
            if part:
                yield first, "\n".join(part) + "\n", None
            if bad:
                yield at, "", ManifestError(at, "there is something else on the line of the ---", "move it below")
            if part or bad:
                part, first = [], at + 1
                continue
        part.append(row.removesuffix("\r"))
    if part:
        yield first, "\n".join(part) + "\n", None


def _document(number: int, part: str, first: int, unique_keys: bool) -> Document:
    part = part.removeprefix("\ufeff")
    # A byte order mark within a document is part of a key to kubectl, and nothing to libyaml
    if unprintable := yaml.reader.Reader.NON_PRINTABLE.search(part) or re.search("\ufeff", part):
        line = part.count("\n", 0, unprintable.start()) + first
        return Document(number, error=ManifestError(line, f"the character U+{ord(unprintable[0]):04X}", "remove it"))
    builder = _Builder(part, first, unique_keys=unique_keys)
    try:
        for event in yaml.parse(part.encode(), Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        row = min(mark.line if mark else 0, part.count("\n") - 1)
        problem = getattr(error, "problem", None) or "it is no YAML"
        return Document(number, error=ManifestError(first + row, str(problem), _way_out(part.split("\n")[row])))
    except ManifestError as error:
        return Document(number, error=error)
    return Document(number, builder.value, text=part, line=first)


def _content_row(node: Any) -> int:
    return node.start_mark.line


def _entry(node: Any, step: str | int) -> tuple[int, Any] | None:
    """Return the row and the value of an entry of a mapping or list; None if there is none."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line, node.value[step]
    if isinstance(node, yaml.MappingNode):
        found = [(key.start_mark.line, value) for key, value in node.value if key.value == str(step)]
        return found[-1] if found else None
    return None


def _way_out(row: str) -> str:
    if "{{" in row:
        return "render the template first"
    if "\t" in row[: len(row) - len(row.lstrip())]:
        return "indent with spaces"
    return "look at brackets, quotes and indentation"


@dataclass(slots=True)
class _Node:
    """A value with how many values it is, each alias counted for itself, and how many levels it has."""

    value: object
    size: int = 1
    levels: int = 0


@dataclass(slots=True)
class _Anchor:
    """The node of an anchor; None while it is being read."""

    node: _Node | None = None


@dataclass(slots=True)
class _Frame:
    """A mapping or list that has begun. `keys` has the type that each key had before it became text."""

    value: dict[str, object] | list[object]
    line: int
    anchor: _Anchor
    size: int = 1
    levels: int = 1
    key: str | None = None
    merges: bool = False
    keys: dict[str, type | None] = field(default_factory=dict[str, "type | None"])
    explicit: set[str] = field(default_factory=set[str])  # and not merged

    @property
    def expects_key(self) -> bool:
        """Return whether the next value is a key."""
        return isinstance(self.value, dict) and self.key is None and not self.merges


class _Builder:
    """Turns the events of one document into one value."""

    def __init__(self, part: str, first: int, *, unique_keys: bool) -> None:
        self.value: object = None
        self._unique_keys = unique_keys
        self._part = part
        self._first = first
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Anchor] = {}
        self._count = 0
        self._ended = False

    def take(self, event: yaml.Event) -> None:
        """Add the next event."""
        line = self._first + (event.start_mark.line if event.start_mark else 0)
        if isinstance(event, yaml.ScalarEvent):
            self._put_scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(event, line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._put(self._aliased(str(event.anchor), line), line)
        elif isinstance(event, yaml.DocumentStartEvent) and self._ended:
            raise ManifestError(line, "kubectl ignores what stands below the line ...", "begin it with a line ---")
        elif isinstance(event, yaml.DocumentEndEvent):
            self._ended = True

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, line: int) -> None:
        if len(self._frames) >= MOST_LEVELS:
            raise ManifestError(line, _TOO_DEEP)
        self._count += 1
        empty: dict[str, object] | list[object] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._frames.append(_Frame(empty, line, self._anchor(event.anchor)))

    def _end(self) -> None:
        frame = self._frames.pop()
        node = _Node(frame.value, frame.size, frame.levels)
        frame.anchor.node = node
        self._put(node, frame.line)

    def _put_scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        self._count += 1
        frame = self._frames[-1] if self._frames else None
        anchor = self._anchor(event.anchor)
        anchor.node = _Node(self._scalar(event, line))
        if event.value == "<<" and (event.tag == _MERGE or event.implicit[0]) and frame and frame.expects_key:
            frame.merges = True
        else:
            self._put(anchor.node, line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> object:
        tag = "" if event.tag in {None, "!"} else str(event.tag)
        if event.style:
            return _tagged(tag, event.value, line) if tag else event.value
        start, end = (mark.index if mark else 0 for mark in (event.start_mark, event.end_mark))
        properties = _PROPERTIES.match(self._part, start, end)
        if properties and not event.value and self._part[properties.end() : end + 1] == ",":
            # kubectl counts the comma and what follows to the tag
            raise ManifestError(line, "a tag with a comma behind it", "put a space before the comma")
        if not tag and properties:
            return event.value
        return _tagged(tag, event.value, line)

    def _anchor(self, name: str | None) -> _Anchor:
        """Return a new anchor, which takes the place of an earlier one of that name."""
        anchor = _Anchor()
        if name:
            self._anchors[name] = anchor
        return anchor

    def _aliased(self, name: str, line: int) -> _Node:
        anchor = self._anchors.get(name)
        if anchor is None:
            raise ManifestError(
                line, f"there is no anchor &{name[:40]} above", "YAML has anchors within one document only"
            )
        if anchor.node is None:
            raise ManifestError(line, f"the anchor &{name[:40]} holds itself")
        return anchor.node

    def _put(self, node: _Node, line: int) -> None:
        if not self._frames:
            self.value = _plain(node.value, line)
            return
        frame = self._frames[-1]
        frame.size += node.size
        frame.levels = max(frame.levels, node.levels + 1)
        if frame.size > max(MOST_VALUES, MOST_TIMES * self._count):
            raise ManifestError(line, "its aliases make it too large to be read", "write it without them")
        if len(self._frames) + node.levels > MOST_LEVELS:
            raise ManifestError(line, _TOO_DEEP)
        if isinstance(frame.value, list):
            frame.value.append(_plain(node.value, line))
        elif frame.merges:
            _merge(frame, node.value, line)
            frame.merges = False
        elif frame.key is None:
            frame.key = _key(node.value, line)
            _note(frame, frame.key, type(node.value), line)
            if self._unique_keys and frame.key in frame.explicit:
                raise ManifestError(line, _twice(frame.key), "remove one of them")
            frame.explicit.add(frame.key)
        else:
            frame.value[frame.key] = _plain(node.value, line)
            frame.key = None


def _merge(frame: _Frame, value: object, line: int) -> None:
    """Replace the keys so far with those of one or more merged mappings; of several mappings the first wins."""
    merged = cast("list[object]", value) if isinstance(value, list) else [value]
    for mapping in reversed(merged):
        if not isinstance(mapping, dict):
            raise ManifestError(line, "<< with something else than mappings", "name mappings by their aliases")
        for key, merged_value in cast("dict[str, object]", mapping).items():
            # Nobody knows any more what such a key was before it became text
            _note(frame, key, str if isinstance(_resolve(key), str) else None, line)
            cast("dict[str, object]", frame.value)[key] = merged_value


def _note(frame: _Frame, key: str, kind: type | None, line: int) -> None:
    """Raise `ManifestError` for two keys with the same text, such as 1 and "1", of which kubectl takes any."""
    if key in frame.keys and (kind is None or frame.keys[key] is not kind):
        raise ManifestError(line, f"two keys become the text {key[:40]!r}", "quote both, or remove one")
    frame.keys[key] = kind


def _key(value: object, line: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value <= _MOST:
        return str(value)
    if isinstance(value, dict | list):
        raise ManifestError(line, "a mapping or list as a key", "quote it, or render the template first")
    raise ManifestError(line, "a key that is neither text nor a whole number nor true or false", "quote it")


def _tagged(tag: str, text: str, line: int) -> object:
    """Return what a text with a tag stands for, or without quotes where the tag is empty."""
    if tag == _BINARY:
        try:
            return base64.b64decode(re.sub("[\r\n]", "", text), validate=True).decode()
        except ValueError:
            raise ManifestError(line, "!!binary with something else than text in Base64", "remove the tag") from None
    if tag and tag not in _TYPES:
        return text
    value = _resolve(text)
    if not tag:
        return value
    if type(value) not in _TYPES[tag] or (isinstance(value, str) and not _TIMESTAMP.fullmatch(value)):
        raise ManifestError(line, f"{tag.replace(_TAG, '!!')} with something else", "remove the tag")
    return float(value) if type(value) is int and float in _TYPES[tag] else value


def _resolve(text: str) -> str | float | None:
    """Return what a text without quotes stands for."""
    if text in _WORDS:
        return _WORDS[text]
    if not text.startswith((".", "-", "+")) and not text[:1].isdecimal():
        return text
    digits = text.replace("_", "")
    number = _integer(digits)
    if number is None and (_POINT.fullmatch(text) if text.startswith(".") else _FLOAT.fullmatch(digits)):
        number = float(digits)
    return text if number is None or math.isinf(number) else number


def _integer(digits: str) -> int | None:
    """Return a whole number of 64 bits; None for any other text, of which some are numbers with a fraction."""
    if _DECIMAL.fullmatch(digits):
        number = int(digits)
    elif based := _BASED.fullmatch(digits):
        sign, by_16, by_2, by_8 = based.groups()
        base = 16 if by_16 else 2 if by_2 else 8
        number = int(f"{sign}{by_16 or by_2 or by_8 or '0'}", base)
    elif inside := _SIGN_INSIDE.fullmatch(digits):
        number = int(inside[1], 2)
    else:
        return None
    most = _MOST if digits.startswith(("-", "+")) else _MOST_UNSIGNED
    return number if _LEAST <= number <= most else None


def _plain(value: object, line: int = 1) -> Any:
    """Return a number as the API server is sent it: one without a fraction is a whole one."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ManifestError(line, "a number that is infinite or none, which no JSON has", "quote it")
        # By its shortest digits, as JSON has it
        whole = int(Decimal(repr(value))) if value.is_integer() and abs(value) < _EXPONENT else None
        return value if whole is None or not _LEAST <= whole <= _MOST else whole
    if isinstance(value, int) and not isinstance(value, bool) and not _LEAST <= value <= _MOST:
        return float(value)
    return value
