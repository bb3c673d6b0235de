"""What is read off the kube: whole lines, however they were cut on their way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentenv.service.kube.client import _lines  # pyright: ignore[reportPrivateUsage] - what it does has no other way in


def lines(parts: Iterable[bytes]) -> list[bytes]:
    """The lines of what comes in parts."""

    async def coming() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    async def play() -> list[bytes]:
        return [line async for line in _lines(coming())]

    return asyncio.run(play())


# Mostly newlines, so that lines are short, empty, and cut at their ends.
TEXT = st.lists(st.sampled_from([b"a", b"{}", b"\r", b"\n", b"\n", "ß".encode(), b"\x00"])).map(b"".join)


@given(TEXT, st.lists(st.integers(0, 40)))
def test_lines_are_the_same_however_they_are_cut(text: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert lines(text[start:end] for start, end in pairwise(places)) == [
        line for line in text.split(b"\n")[:-1] if line
    ]


@given(TEXT, st.binary(min_size=1).filter(lambda rest: b"\n" not in rest))
def test_an_unfinished_last_line_is_none(text: bytes, rest: bytes) -> None:
    whole = text + b"\n"
    assert lines([whole + rest]) == lines([whole, rest]) == lines([whole])


def test_a_line_is_there_as_soon_as_it_has_ended() -> None:
    async def play() -> list[bytes]:
        ended = asyncio.Event()

        async def coming() -> AsyncIterator[bytes]:
            yield b"one\ntw"
            assert ended.is_set()
            yield b"o\n"

        found: list[bytes] = []
        async for line in _lines(coming()):
            found.append(line)
            ended.set()
        return found

    assert asyncio.run(play()) == [b"one", b"two"]
