"""Output for models is bounded, and says what was cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentenv.service.mcp.output import MAX_LINE, Bounded, lines_of


@given(st.lists(st.binary(max_size=40), max_size=40))
def test_truncated_output_has_its_beginning_and_end(pieces: list[bytes]) -> None:
    bounded, whole = Bounded(10, 20), b"".join(pieces)
    for piece in pieces:
        bounded.add(piece)
    if len(whole) <= 30:
        assert bounded.text() == whole.decode(errors="replace")
    else:
        note = f"\n[... {len(whole) - 30} bytes of {len(whole)} were cut here ...]\n".encode()
        assert bounded.text() == (whole[:10] + note + whole[-20:]).decode(errors="replace")


def test_memory_is_bounded() -> None:
    bounded = Bounded(10, 20)
    for _ in range(1000):
        bounded.add(b"x" * 1000)
    assert len(bounded._tail) <= 40 + 1000
    assert bounded.length == 1_000_000


def test_lines_are_counted_and_cut() -> None:
    assert lines_of("a\nb\nc\n", 2, 1) == ("b", 1, 3)
    assert lines_of("a\nb", 5, 10) == ("", 0, 2)
    shown, _, _ = lines_of("x" * (MAX_LINE + 1), 1, 1)
    assert shown == "x" * MAX_LINE + " [... line cut]"
