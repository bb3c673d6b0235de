"""Strategies for objects as nobody should write them: any JSON anywhere, nested deeply, of absurd sizes and types."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as some

DEPTH = 20_000


def _deep(depth: int, *, listed: bool) -> Any:
    found: Any = "inside"
    for _ in range(depth):
        found = [found] if listed else {"a": found}
    return found


# What JSON and annotations hold that no reader expects: `1e999` is read as infinity, and half a surrogate pair as text.
NUMBERS = some.sampled_from([0, -1, 10**30, -(10**400), 1e308, float("inf"), float("-inf"), float("nan"), 0.5, True])
TEXTS = some.sampled_from(
    [
        "",
        " ",
        "true",
        "0",
        "-1",
        "1e999",
        "NaN",
        "Infinity",
        "sNaN",
        "1E-999999",
        "1E+999999",
        "9" * 20,
        "9" * 5_000,
        "٣",
        "²",
        "\ud800",
        "\x00",
        "a\udfffb",
        "[" * DEPTH,
        '{"a":' * DEPTH,
        "[" * DEPTH + "]" * DEPTH,
        '["\\ud800"]',
        '{"\\ud800":"ro","u":["ro"],"v":{}}',
        '[{"holder":"\\ud800","mode":"rw","until":"2026-11-19T00:00:00Z"}]',
        '[{"holder":"a","mode":{},"until":1e999},{"holder":["a"],"mode":"rw","until":"9999-12-31T23:59:59-14:00"}]',
        '["Europe/Paris",1e999,[[0,1,2]]]',
        '["../../etc/passwd",1,[]]',
        '["Europe/Paris",1,[[1e999,NaN,2]]]',
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "9999-12-31T23:59:59Z",
        "0000-00-00T00:00:00Z",
        "2026-11-19T12:00:00",
        "2026-11-19T12:00:00Z",
        "0.25vCPU 0.5GB",
        "1E+999999vCPU NaNGB",
        "stable/a,,/,next/",
    ]
)
LEAVES = some.none() | some.booleans() | NUMBERS | TEXTS | some.text(some.characters(codec=None), max_size=5)
DEEP = some.builds(_deep, some.sampled_from([1, 100, 900]), listed=some.booleans())
ANY = some.recursive(
    LEAVES, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
) | some.deferred(lambda: DEEP)


def places(document: Any, so_far: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the path of every field within a document."""
    inside: Any = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in inside:
        yield (*so_far, key)
        if isinstance(value, dict | list):
            yield from places(value, (*so_far, key))


@some.composite
def odd(draw: some.DrawFn, sample: dict[str, Any]) -> Any:
    """Draw a sample with some of its fields gone or something else; now and then something else altogether."""
    if draw(some.integers(0, 19)) == 0:
        return draw(some.dictionaries(some.sampled_from(["metadata", "spec", "status", "data"]), ANY))
    document = deepcopy(sample)
    for path in draw(some.lists(some.sampled_from(sorted(places(sample), key=repr)), min_size=1, max_size=4)):
        within: Any = document
        for key in path[:-1]:
            within = within[key] if _has(within, key) else None
        if not _has(within, path[-1]):
            continue
        if isinstance(within, dict) and draw(some.booleans()):
            del within[path[-1]]
        else:
            within[path[-1]] = draw(LEAVES if draw(some.booleans()) else ANY)
    return document


def _has(within: Any, key: Any) -> bool:
    return (
        key in within
        if isinstance(within, dict)
        else isinstance(within, list) and isinstance(key, int) and key < len(within)
    )
