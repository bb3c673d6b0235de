"""The order of test files. Long ones come first: begun last, one of them would keep a single worker busy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def keep_order(config: pytest.Config) -> None:
    """Give the files to the workers in the order of their tests: xdist would begin with the most tests."""
    config.option.loadscopereorder = False


def begin_with(items: list[pytest.Item], folder: Path, names: Sequence[str]) -> None:
    """Begin with these files of a folder, in this order."""
    order = {folder / name: position for position, name in enumerate(names)}
    items.sort(key=lambda item: order.get(item.path, len(order)))
