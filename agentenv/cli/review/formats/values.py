"""Format values for a review: short, on one line, and without anything that may be a secret.

The engine has masked the secrets that it knows. Other values are shown only if neither the name of the property nor the
value looks like a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentenv.cli.review.changes import Change
from agentenv.cli.review.graph import Graph, Resource, is_unknown
from agentenv.rehearsal.providers.kubernetes.values import parse_path

HIDDEN = "(hidden)"
LATER = "(known once it is made)"
NOTHING = "(nothing)"
MAX_LENGTH = 60
_CONTEXT = 12  # characters before the first that differs

_WORDS = (
    r"secret|passw(?:or)?d|passphrase|pwd|token|credential|private[_-]?key|signing[_-]?key|access[_-]?key|api[_-]?key"
)
_SENSITIVE_NAME = re.compile(
    r"secret|passw|passphrase|pwd|token|credential|private|kubeconfig|signing|key(data|material|string|value)?s?$|"
    r"connection_?string|user_?data|auth|cookie|containerdefinitions|"
    # Arguments, environment variables and annotations can contain anything
    r"^(env|environment|stringdata|data|binarydata|variables|args?|arguments|command|entrypoint|annotations|pass)$",
    re.IGNORECASE,
)
# Keys that are identifiers: of tables, tags and selectors, or references to other resources
_IDENTIFIER_NAME = re.compile(
    r"(kms|hash|range|sort|partition|tag|topology|label|object|s3|public|ssh)_?key$|^keys?$", re.IGNORECASE
)
_SECRET_TYPES = re.compile(r":Secret(Patch)?$|secretsmanager|ssm/parameter", re.IGNORECASE)
_SECRETS = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{30,}|\bgl(?:pat|rt|dt|ptt)-[\w-]{18,}|\bpul-[0-9a-f]{32,}"
    r"|\bsk-[A-Za-z0-9_-]{20,}|\bxox[a-z]-[\w-]{8,}|\bAIza[\w-]{30,}|\bnpm_[A-Za-z0-9]{30,}|\bhv[sbr]\.[\w-]{16,}"
    r"|(?<=//hooks\.slack\.com/services/)[\w/]+"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)",
    re.DOTALL,
)
# A labelled secret: `password=…`, `"token": "…"`, `--api-key …`, `Authorization: Bearer …`. A colon alone does not
# label one: `secretsmanager:GetSecretValue` is an action. The file or the name of a secret is not a secret either
_NOT_A_REFERENCE = r"(?![\w-]{0,40}?(?:names?|refs?|file|path|arn|less)[\"']?(?![\w-]))"
_ASSIGNED = re.compile(
    rf"""(?ix)
    (?P<before>
        authorization["']?[ \t]*[:=][ \t]*["']?(?:[a-z]+[ \t]+)?
      | \bbearer[ \t]+(?=\S*\d|\S{{20}})
      | (?<![\w-])--?[\w-]{{0,40}}?(?:{_WORDS}){_NOT_A_REFERENCE}[\w-]{{0,40}}(?:[ \t]+|=)
      | (?:passw(?:or)?d|passphrase|pwd)["']?[ \t]*:[ \t]*
      | (?:{_WORDS}){_NOT_A_REFERENCE}[\w-]{{0,40}}(?:[ \t]*=[ \t]*|:[ \t]+|["'][ \t]*:[ \t]*)
    )
    (?!(?:true|false|null|none)\b)
    (?P<value>"[^"]*" | '[^']*' | [^\s&"',;]+)
    """
)


def mask_secrets(text: str) -> str:
    """Mask everything in a text that looks like a secret."""
    return _ASSIGNED.sub(_mask_value, _SECRETS.sub(HIDDEN, text))


def _mask_value(match: re.Match[str]) -> str:
    """Return the label of a secret with a masked value."""
    return match["before"] + HIDDEN


def differences(change: Change, before: Graph, after: Graph) -> list[tuple[str, str, str]]:
    """Return the changed properties, each with its value before and after."""
    old, new = before.get(change.urn), after.get(change.urn)
    if change.operation not in {"update", "replace"} or old is None or new is None:
        return [(key, "", "") for key in change.keys]
    return [(key, *_difference(displayed_value(old, key), displayed_value(new, key))) for key in change.keys]


def _difference(old: str, new: str) -> tuple[str, str]:
    """Cut two values to where they differ. Values without a visible difference become empty."""
    if old == new:
        return "", ""
    pairs = zip(old, new, strict=False)
    same = next((at for at, (before, after) in enumerate(pairs) if before != after), min(len(old), len(new)))
    start = max(same - _CONTEXT, 0) if max(len(old), len(new)) > MAX_LENGTH else 0
    return _cut(old, start), _cut(new, start)


def _cut(text: str, start: int) -> str:
    end = start + MAX_LENGTH - 1
    return f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"


def displayed_value(resource: Resource, path: str) -> str:
    """Return the value at a path of a resource's inputs, masked if it may be a secret."""
    steps = parse_path(path)
    value: Any = resource.inputs
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            value = None
    if value is None:
        return NOTHING
    if is_unknown(value):
        return LATER
    if _SECRET_TYPES.search(resource.type) or any(_may_be_secret(str(step)) for step in steps):
        return HIDDEN
    return _value_text(value)


def _may_be_secret(name: str) -> bool:
    """Return whether a property with this name may be a secret."""
    return _SENSITIVE_NAME.search(name) is not None and _IDENTIFIER_NAME.search(name) is None


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return " ".join(mask_secrets(str(value)).split())
    count = len(value) if isinstance(value, list | Mapping) else 1
    return f"({count} {'items' if isinstance(value, list) else 'keys'})"
