"""Progress messages on a terminal and in a log."""

from __future__ import annotations

import io

import pytest

from agentenv.rehearsal.tools.progress import Lines, Terminal, span, terminal_progress


def test_log_gets_a_line_at_intervals() -> None:
    stream, now = io.StringIO(), [0.0]
    lines = Lines(stream, clock=lambda: now[0], every=20)
    with lines.task("Building it", 5) as task:
        for second in range(0, 50, 5):
            now[0] = second
            task.reached(second, 100)
            task.doing(f"part {second}")
            task.beat()
        lines.note("by the way")
    assert stream.getvalue().splitlines() == [
        "Building it (about 5 min)",
        "Building it: 20%, 20 s, part 15",
        "Building it: 40%, 40 s, part 35",
        "by the way",
        "Building it: done after 45 s",
    ]


def test_failed_work_is_not_reported_as_done() -> None:
    stream = io.StringIO()
    with pytest.raises(RuntimeError), Lines(stream).task("Building it", 1):
        raise RuntimeError
    assert "done" not in stream.getvalue()


def test_a_terminal_shows_names_that_look_like_markup() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream)
    with terminal.task("Building [bold]it", 1) as task:
        task.doing("[/red] odd")
        task.reached(1, 2)
        terminal.note("[a note]")
    assert "[a note]" in stream.getvalue()
    assert "Building [bold]it: done" in stream.getvalue()


def test_output_without_a_terminal_has_lines() -> None:
    assert isinstance(terminal_progress(io.StringIO()), Lines)


@pytest.mark.parametrize(
    ("seconds", "words"), [(12, "12 s"), (89, "89 s"), (90, "1 min 30 s"), (120, "2 min"), (301, "5 min")]
)
def test_durations_are_readable(seconds: float, words: str) -> None:
    assert span(seconds) == words
