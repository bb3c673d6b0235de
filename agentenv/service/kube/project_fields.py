"""Keep only the needed fields of documents, to save memory where ten thousand of them are held.

Strings that many documents share are stored once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from agentenv.service.kube.client import Document, section

Path = tuple[str, ...]


def project_fields(document: Document, paths: Sequence[Path]) -> Document:
    """Return a document with only the named fields, as far as it has them."""
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


# Short strings are mostly shared: phases, policies, namespaces. Object names and timestamps are longer.
_SHORT = 20
