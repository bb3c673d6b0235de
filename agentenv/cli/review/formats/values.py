"""Values as a review may show them: short, on one line, and never one that may be a secret.

What the engine knows to be secret it has masked already. The rest is shown only where the name of the property and the
value itself speak against its being one: a value that is hidden without need costs a look into the code.
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
LONGEST = 60
_CONTEXT = 12  # characters before the first that differs

_WORDS = (
    r"secret|passw(?:or)?d|passphrase|pwd|token|credential|private[_-]?key|signing[_-]?key|access[_-]?key|api[_-]?key"
)
_TELLING = re.compile(
    r"secret|passw|passphrase|pwd|token|credential|private|kubeconfig|signing|key(data|material|string|value)?s?$|"
    r"connection_?string|user_?data|auth|cookie|containerdefinitions|"
    # What programs are called with, and what anybody writes on objects, holds anything
    r"^(env|environment|stringdata|data|binarydata|variables|args?|arguments|command|entrypoint|annotations|pass)$",
    re.IGNORECASE,
)
# Keys that name something: of tables, tags and selectors, or by which others are found
_NAMING = re.compile(
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
# What is said to be one: `password=…`, `"token": "…"`, `--api-key …`, `Authorization: Bearer …`. A colon alone is none:
# `secretsmanager:GetSecretValue` is an action, and not a secret; nor is where one is to be found, or what it is called
_NOT_ITSELF = r"(?![\w-]{0,40}?(?:names?|refs?|file|path|arn|less)[\"']?(?![\w-]))"
_SAID = re.compile(
    rf"""(?ix)
    (?P<before>
        authorization["']?[ \t]*[:=][ \t]*["']?(?:[a-z]+[ \t]+)?
      | \bbearer[ \t]+(?=\S*\d|\S{{20}})
      | (?<![\w-])--?[\w-]{{0,40}}?(?:{_WORDS}){_NOT_ITSELF}[\w-]{{0,40}}(?:[ \t]+|=)
      | (?:passw(?:or)?d|passphrase|pwd)["']?[ \t]*:[ \t]*
      | (?:{_WORDS}){_NOT_ITSELF}[\w-]{{0,40}}(?:[ \t]*=[ \t]*|:[ \t]+|["'][ \t]*:[ \t]*)
    )
    (?!(?:true|false|null|none)\b)
    (?P<value>"[^"]*" | '[^']*' | [^\s&"',;]+)
    """
)


def masked(text: str) -> str:
    """A text that somebody else wrote, with what looks like a secret taken out."""
    return _SAID.sub(_without, _SECRETS.sub(HIDDEN, text))


def _without(found: re.Match[str]) -> str:
    """What is said before a value, and not the value; a value that is hidden already stays so."""
    return found["before"] + HIDDEN


def differences(change: Change, before: Graph, after: Graph) -> list[tuple[str, str, str]]:
    """The properties that a change names, each with the value before and after."""
    old, new = before.get(change.urn), after.get(change.urn)
    if change.operation not in {"update", "replace"} or old is None or new is None:
        return [(key, "", "") for key in change.keys]
    return [(key, *_apart(shown(old, key), shown(new, key))) for key in change.keys]


def _apart(old: str, new: str) -> tuple[str, str]:
    """Two values from where they begin to differ; nothing where nobody can tell how they do."""
    if old == new:
        return "", ""
    pairs = zip(old, new, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))
    start = max(same - _CONTEXT, 0) if max(len(old), len(new)) > LONGEST else 0
    return _cut(old, start), _cut(new, start)


def _cut(text: str, start: int) -> str:
    end = start + LONGEST - 1
    return f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"


def shown(resource: Resource, path: str) -> str:
    """The value at a path of a resource's inputs, as it may be shown, however long."""
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
    if _SECRET_TYPES.search(resource.type) or any(_telling(str(step)) for step in steps):
        return HIDDEN
    return _plain(value)


def _telling(name: str) -> bool:
    """Whether what is called so may be a secret."""
    return _TELLING.search(name) is not None and _NAMING.search(name) is None


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return " ".join(masked(str(value)).split())
    count = len(value) if isinstance(value, list | Mapping) else 1
    return f"({count} {'items' if isinstance(value, list) else 'keys'})"
