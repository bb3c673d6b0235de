"""Percentiles are measured values, and a benchmark that cannot run has an error message."""

from __future__ import annotations

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.cli import main as cli
from agentenv.cli.commands import bench
from agentenv.rehearsal.stage.stage import StageError
from bench.timing import percentile


def test_percentiles_of_a_hundred_values() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 100)) == (50, 99, 100)
    assert percentile([7.0], 1) == percentile([7.0], 99) == 7


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.1, 100))
def test_a_percentile_is_the_smallest_value_that_enough_values_do_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * share / 100
    below = [value for value in values if value < found]
    assert not below or len(below) < len(values) * share / 100


@pytest.mark.parametrize("arguments", [["preview", "--hanging", "5"], ["creates", "--hanging", "-1"]])
def test_only_the_benchmark_of_creates_has_remotes_that_hang(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", *arguments]) != cli.OK
    assert "--hanging" in capsys.readouterr().err


def test_a_stage_that_cannot_open_is_a_command_error() -> None:
    module = types.ModuleType("one")

    def measure(_: int) -> dict[str, float]:
        raise StageError("the disk is full")

    module.__dict__["measure"] = measure
    with pytest.raises(cli.CommandError, match="the disk is full"):
        bench.measure(module, 1)
