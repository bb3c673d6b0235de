"""JSONPath expressions, as in `kubectl wait --for=jsonpath=…` and RFC 9535.

Fields, quoted fields, indexes, slices, wildcards, descent, and filters with comparisons, `&&`, `||`, `!` and brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

Step = Callable[[Any, Any], Iterator[Any]]  # (value, root) -> values
Test = Callable[[Any, Any], bool]
Term = Callable[[Any, Any], list[Any]]

TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<name>(?:[A-Za-z_]|\\.)(?:[\w/-]|\\.)*)|(?P<sign>\.\.|==|!=|<=|>=|&&|\|\||[.\[\]()?@$*:,<>!]))"""
)


class InvalidPath(ValueError):
    """The path is not valid, and at which position."""


@dataclass(frozen=True)
class JsonPath:
    """A parsed path."""

    text: str
    steps: tuple[Step, ...]

    def select(self, value: Any) -> list[Any]:
        return _walk(self.steps, value, value)


def parse(text: str) -> JsonPath:
    """Parse a path. The leading `$` is optional, as in kubectl."""
    reader = _Reader(text)
    if reader.peek() == "$":
        reader.take()
    steps = reader.steps(first=True)
    if reader.peek() is not None:
        raise reader.broken("the end of the path")
    return JsonPath(text, steps)


def _walk(steps: tuple[Step, ...], value: Any, root: Any) -> list[Any]:
    values = [value]
    for step in steps:
        values = [result for step_ in values for result in step(step_, root)]
    return values


def _field(name: str) -> Step:
    def step(value: Any, _: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(number: int) -> Step:
    def step(value: Any, _: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield value[number]

    return step


def _slice(part: slice) -> Step:
    def step(value: Any, _: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _all(value: Any, _: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descend(value: Any, root: Any) -> Iterator[Any]:
    yield value
    for inner in _all(value, root):
        yield from _descend(inner, root)


def _filter(test: Test) -> Step:
    def step(value: Any, root: Any) -> Iterator[Any]:
        items = [value] if not isinstance(value, list | dict) else list(_all(value, root))
        yield from (item for item in items if test(item, root))

    return step


def _union(steps: list[Step]) -> Step:
    def step(value: Any, root: Any) -> Iterator[Any]:
        for step_ in steps:
            yield from step_(value, root)

    return step


class _Reader:
    """A recursive-descent parser of one path."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.signs: list[tuple[str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            match = TOKEN.match(text, at)
            if match is None:
                raise InvalidPath(f"{text!r}: {text[at : at + 10]!r} is not understood")
            kind = match.lastgroup or ""
            self.signs.append((kind, match[kind]))
            at = match.end()
        self.at = 0

    def peek(self) -> str | None:
        return self.signs[self.at][1] if self.at < len(self.signs) else None

    def kind(self) -> str | None:
        return self.signs[self.at][0] if self.at < len(self.signs) else None

    def take(self) -> str:
        character = self.peek()
        if character is None:
            raise self.broken("more")
        self.at += 1
        return character

    def expect(self, sign: str) -> None:
        if self.peek() != sign:
            raise self.broken(f"'{sign}'")
        self.at += 1

    def broken(self, expected: str) -> InvalidPath:
        result = self.peek()
        return InvalidPath(f"{self.text!r}: expected {expected}, found {'the end' if result is None else repr(result)}")

    def steps(self, *, first: bool = False) -> tuple[Step, ...]:
        out: list[Step] = []
        while (character := self.peek()) is not None:
            if character == "..":
                self.take()
                out.append(_descend)
                if self.peek() != "[":
                    out.append(self.member())
            elif character == ".":
                self.take()
                if self.peek() != "[" and not (first and not out and self.peek() is None):
                    out.append(self.member())
            elif character == "[":
                out.append(self.bracket())
            elif first and not out and self.kind() == "name":
                out.append(self.member())
            else:
                break
        return tuple(out)

    def member(self) -> Step:
        if self.peek() == "*":
            self.take()
            return _all
        if self.kind() != "name":
            raise self.broken("a field")
        return _field(re.sub(r"\\(.)", r"\1", self.take()))

    def bracket(self) -> Step:
        self.expect("[")
        steps = [self.selector()]
        while self.peek() == ",":
            self.take()
            steps.append(self.selector())
        self.expect("]")
        return steps[0] if len(steps) == 1 else _union(steps)

    def selector(self) -> Step:
        character, kind = self.peek(), self.kind()
        if character == "*":
            self.take()
            return _all
        if character == "?":
            self.take()
            return _filter(self.either())
        if kind == "text":
            return _field(_unquoted(self.take()))
        if character == ":" or kind == "number":
            numbers: list[int | None] = [None]
            while self.peek() == ":" or self.kind() == "number":
                if self.peek() == ":":
                    numbers.append(None)
                    self.take()
                else:
                    numbers[-1] = int(self.take())
            first = numbers[0]
            return _index(first) if len(numbers) == 1 and first is not None else _slice(slice(*numbers[:3]))
        raise self.broken("an index, a quoted field, '*' or '?'")

    def either(self) -> Test:
        tests = [self.both()]
        while self.peek() == "||":
            self.take()
            tests.append(self.both())
        return tests[0] if len(tests) == 1 else lambda value, root: any(t(value, root) for t in tests)

    def both(self) -> Test:
        tests = [self.single()]
        while self.peek() == "&&":
            self.take()
            tests.append(self.single())
        return tests[0] if len(tests) == 1 else lambda value, root: all(t(value, root) for t in tests)

    def single(self) -> Test:
        if self.peek() == "!":
            self.take()
            inner = self.single()
            return lambda value, root: not inner(value, root)
        if self.peek() == "(":
            self.take()
            test = self.either()
            self.expect(")")
            return test
        left = self.term()
        sign = self.peek()
        if sign not in COMPARISONS:
            return lambda value, root: bool(left(value, root))
        self.take()
        right = self.term()
        compare = COMPARISONS[sign]
        return lambda value, root: compare(left(value, root), right(value, root))

    def term(self) -> Term:
        character, kind = self.peek(), self.kind()
        if character in {"@", "$"}:
            self.take()
            steps, own = self.steps(), character == "@"
            return lambda value, root: _walk(steps, value if own else root, root)
        if kind == "text":
            text = _unquoted(self.take())
            return lambda _value, _root: [text]
        if kind == "number" or character in {"true", "false", "null"}:
            constant = json.loads(self.take())
            return lambda _value, _root: [constant]
        raise self.broken("'@', '$', a text or a number")


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[list[Any], list[Any]], bool]:
    def test(left: list[Any], right: list[Any]) -> bool:
        try:
            return bool(left) and bool(right) and compare(left[0], right[0])
        except TypeError:
            return False

    return test


def _equal(left: list[Any], right: list[Any]) -> bool:
    return left[:1] == right[:1]


COMPARISONS: Final[dict[str | None, Callable[[list[Any], list[Any]], bool]]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(lambda a, b: a < b),
    "<=": _ordered(lambda a, b: a <= b),
    ">": _ordered(lambda a, b: a > b),
    ">=": _ordered(lambda a, b: a >= b),
}
