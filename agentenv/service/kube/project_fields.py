"""Of a document no more than what somebody looks at: whoever holds ten thousand of them holds no more than that.

Names that many of them have are held once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from agentenv.service.kube.client import Document, section

Path = tuple[str, ...]


def project_fields(document: Document, paths: Sequence[Path]) -> Document:
    """A document with those of its fields that are named, where it has them."""
    projected: Document = {}
    for path in paths:
        value, within = document, projected
        for key in path[:-1]:
            value = section(value, key)
            if not value:
                break
            within = within.setdefault(key, {})
        else:
            last: Any = value.get(path[-1])
            if last is not None:
                within[path[-1]] = sys.intern(last) if isinstance(last, str) and len(last) < _SHORT else last
    return projected


# Of what is shorter, most is a word: a phase, a policy, a namespace. Names of single things and moments are longer.
_SHORT = 20
