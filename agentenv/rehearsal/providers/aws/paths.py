"""Paths into answers: `Vpcs[0].VpcId`."""

from __future__ import annotations

from typing import Any


def pick(expression: str, document: Any) -> Any:
    import jmespath

    return jmespath.search(expression, document)
