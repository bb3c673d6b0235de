"""List the AWS resource types that have tags, from the provider's SDK, which is generated from its schema."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_TOKEN = re.compile(r"super\(\w+, __self__\)\.__init__\(\s*'(aws:[\w/]+:\w+)'")
# A mapping of strings: two types have inputs called `tags` of another type
_TAGS = re.compile(r"\n\s+tags: pulumi\.Input\[Optional\[Mapping\[")


@cache
def taggable_text() -> str:
    """Return the content of `policies/taggable.txt`: a type token in each line."""
    sdk = find_spec("pulumi_aws")
    if sdk is None or sdk.origin is None:
        raise RuntimeError("the SDK of the aws plugin is not installed")
    files = Path(sdk.origin).parent.rglob("[a-z]*.py")
    return "".join(sorted(f"{token}\n" for file in files if (token := _token(file)) is not None))


def _token(file: Path) -> str | None:
    """Return the type of a module of the SDK if it has tags. The module is parsed, not imported."""
    if file.name.startswith("get_"):
        return None
    text = file.read_text(encoding="utf-8")
    token = _TOKEN.search(text)
    if token is None:
        return None
    return token[1] if _TAGS.search(text, text.index("def _internal_init"), token.start()) else None
