"""JMESPath expressions over responses, such as `Vpcs[0].VpcId`."""

from __future__ import annotations

from typing import Any


def pick(expression: str, document: Any) -> Any:
    """Return the part of a document that an expression selects."""
    import jmespath

    return jmespath.search(expression, document)
