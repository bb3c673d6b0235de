"""The plot of an estimate: its formats, reproducible bytes, and an atomic file."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from agentenv.cli.main import CommandError
from agentenv.cli.reports.plots import plot_estimate, write_file

BY_HOURS = {
    Decimal(40): [(10, Decimal("19.10")), (1000, Decimal("1.42"))],
    Decimal(160): [(10, Decimal(22)), (1000, Decimal("3.60"))],
}


def test_png_and_svg_are_reproducible(tmp_path: Path) -> None:
    for ending, begins in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        file = tmp_path / f"plot{ending}"
        plot_estimate(BY_HOURS, Decimal(3), "prod", file)
        first = file.read_bytes()
        assert first.startswith(begins)
        plot_estimate(BY_HOURS, Decimal(3), "prod", file)
        assert file.read_bytes() == first


def test_a_page_has_the_plot_and_every_figure_and_loads_nothing(tmp_path: Path) -> None:
    file = tmp_path / "plot.html"
    plot_estimate(BY_HOURS, Decimal(3), "<b>prod</b>", file)
    page = file.read_text()
    assert "<svg" in page
    assert "<td><b>1.42</b></td>" in page  # within the cap
    assert "<td>3.60</td>" in page
    assert "&lt;b&gt;prod" in page
    assert not re.search(r"(src|href)=\"(?!#)", page)


@pytest.mark.parametrize(
    ("by_hours", "name", "message"), [(BY_HOURS, "plot.pdf", "ends in none"), ({}, "a.png", "nothing")]
)
def test_a_plot_without_data_or_with_another_extension_is_an_error(
    by_hours: dict[Decimal, list[tuple[int, Decimal]]], name: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(CommandError, match=message):
        plot_estimate(by_hours, None, "prod", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(CommandError, match="taken cannot be written: Is a directory"):
        write_file(tmp_path / "taken", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
