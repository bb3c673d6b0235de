"""Names that others hold on to stay as they are: releases, resources, labels, metrics, rules, outputs and the rest."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from tests.fast.frozen import FILE, frozen
from tests.graphs import changes

GOLDEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


@cache
def now() -> dict[str, Any]:
    return frozen()


def test_every_group_of_names_is_in_the_file() -> None:
    assert set(now()) == set(GOLDEN)
    assert all(now().values())


@pytest.mark.parametrize("group", sorted(GOLDEN))
def test_no_name_has_changed(group: str) -> None:
    """A change that means to writes the file again: `python -m tests.fast.frozen`."""
    old, new = GOLDEN[group], now()[group]
    if group == "resources":
        # By lines, so that a failure names the resources and not their places in a list
        old, new = ({stack: dict.fromkeys(lines, 1) for stack, lines in stacks.items()} for stacks in (old, new))
    assert list(changes(old, new)) == []
