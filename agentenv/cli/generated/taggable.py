"""Which AWS resources can carry tags: read from the provider's own SDK, which is generated from its schema."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_TOKEN = re.compile(r"super\(\w+, __self__\)\.__init__\(\s*'(aws:[\w/]+:\w+)'")
# A mapping of texts: two types have inputs called `tags` that are something else
_TAGS = re.compile(r"\n\s+tags: pulumi\.Input\[Optional\[Mapping\[")


@cache
def taggable_text() -> str:
    """The type tokens, one a line, as `policies/taggable.txt` holds them."""
    found = find_spec("pulumi_aws")
    if found is None or found.origin is None:
        raise RuntimeError("the SDK of the aws plugin is not installed")
    files = Path(found.origin).parent.rglob("[a-z]*.py")
    return "".join(sorted(f"{token}\n" for file in files if (token := _token(file)) is not None))


def _token(file: Path) -> str | None:
    """The type that a module of the SDK holds, if it takes tags; the class is read and never imported."""
    if file.name.startswith("get_"):
        return None
    text = file.read_text(encoding="utf-8")
    made = _TOKEN.search(text)
    if made is None:
        return None
    return made[1] if _TAGS.search(text, text.index("def _internal_init"), made.start()) else None
