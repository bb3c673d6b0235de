"""POD: secrets that lie where everybody may read who may read anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policies.rules.pods_surroundings import SECRET_NAME
from policies.rules.registry import Outcome, fail, objects, rule, unknown
from policies.view.resource import KubernetesObject

# A line of a file that gives a value to what can be nothing but a secret
_LINE: Final = re.compile(
    r"^[ \t]*(?:export[ \t]+)?[\"']?[\w.-]*(?:PASSWORD|PASSWD|PASSPHRASE|SECRET_?KEY|CLIENT_?SECRET|API_?KEY"
    r"|ACCESS_?KEY|PRIVATE_?KEY)[\"']?[ \t]*[=:][ \t]*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
# In one of these words are all of those: most files have none, and a line is dear to read
_WORDS: Final = (
    "passw",
    "passphrase",
    "secret",
    "apikey",
    "api_key",
    "accesskey",
    "access_key",
    "privatekey",
    "private_key",
)
# What stands for a value that comes from elsewhere, or for none
_ELSEWHERE: Final = re.compile(r"[$<{%(/!#|>&*].*|[\"']{2}|null|none|true|false|[\"']?(\$|<|\{|/).*", re.IGNORECASE)


@rule(
    id="POD-21",
    title="No secret in a ConfigMap",
    severity="Medium",
    why="ConfigMaps are for everybody who may look at a namespace, and nobody who prints one, copies it or commits it"
    " thinks of secrets.",
    do="Keep it in a Secret, or better give the pod an identity of its own and no secret at all.",
    about=objects("", "ConfigMap"),
)
def secrets_in_configuration(config: KubernetesObject) -> Iterator[Outcome]:
    """By the keys, and by the lines of the files in it; no value is ever shown."""
    data = config.at("data")
    for key, value in data.entries():
        if value.unknown:
            if SECRET_NAME.search(key) or data.unknown:
                yield unknown(value)
        elif not isinstance(value.raw, str):
            continue
        elif SECRET_NAME.search(key) and _is_said(value.raw.strip()):
            yield fail(value, f"{key} is written down")
        elif _may_have(value.raw) and any(_is_said(found) for found in _LINE.findall(value.raw)):
            yield fail(value, f"a line of {key} has a secret written down")


def _may_have(text: str) -> bool:
    small = text.lower()
    return any(word in small for word in _WORDS)


def _is_said(value: str) -> bool:
    plain = value.rstrip(" \t\r,;")
    return bool(plain) and _ELSEWHERE.fullmatch(plain) is None
