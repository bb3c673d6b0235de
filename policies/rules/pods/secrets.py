"""POD: secrets that lie where everybody may read who may read anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from agentenv.policies.rules.pods.host_access import SECRET_NAME
from agentenv.policies.rules.registry import Outcome, fail, objects, rule, unknown
from agentenv.policies.view.resource import KubernetesObject

# What is a secret whatever it stands under; of a key there has to be something behind the line that begins it
_BY_ITSELF: Final = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:\\[rn]|\s)+(?:[A-Za-z0-9+/]{10}|Proc-Type:)"),
    # Those of AWS's documents end in EXAMPLE
    "the id of an access key": re.compile(r"\b(?:AKIA|ASIA)(?![0-9A-Z]*EXAMPLE)[0-9A-Z]{16}\b"),
    "an access key": re.compile(
        r"secret_?access_?key[\"']?[ \t]*[=:][ \t]*[\"']?(?!\w*EXAMPLE)[A-Za-z0-9+/]{40}(?![\w+/=])", re.IGNORECASE
    ),
}
_IN_ADDRESS: Final = re.compile(r"\w://[^\s/:@\"'<>]*:([^\s/@\"']+)@[\w.\[-]")
_WORD: Final = r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET_KEY|CLIENT_?SECRET|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)"
# A text in quotes that is given to what can be nothing but a secret: a name without quotes is as often a variable's
_QUOTED: Final = re.compile(
    rf"(?:^[ \t]*(?:export[ \t]+|-[ \t]+)?|[{{,(][ \t]*)[\"']?([\w.-]*{_WORD})[\"']?"
    r"[ \t]*[=:][ \t]*([\"'])([^\"'\n]+)\2",
    re.IGNORECASE | re.MULTILINE,
)
# Without quotes only as files of variables, credentials and properties have it
_VARIABLE: Final = re.compile(rf"^[ \t]*(?:export[ \t]+)?([A-Z0-9_]*{_WORD})=([^\s\"';&|]+)[ \t\r]*$", re.MULTILINE)
_PROPERTY: Final = re.compile(
    rf"^[ \t]*([\w.-]*{_WORD})[ \t]*[=:][ \t]*([^\s\"',;]+)[ \t\r]*$", re.IGNORECASE | re.MULTILINE
)
# Most texts have none of these, and a line is dear to read
_SIGNS: Final = re.compile(
    r"passw|passphrase|secret|(?:api|access|private)_?key|PRIVATE KEY|://|AKIA|ASIA", re.IGNORECASE
)
# Names of Secrets and of tokens end so too: what they hold has to look like a secret
_ALSO_NAMES: Final = re.compile(r"(?:(?<!CLIENT)(?<!CLIENT_)SECRET|SECRET_?KEY|TOKEN|CREDENTIALS?)$", re.IGNORECASE)
# What asks for a password, or says something of it
_ABOUT: Final = re.compile(
    r"(?:allow|ask|change|confirm|disable|empty|enable|enter|forgot|hide|invalid|missing|prompt|random|requir|reset"
    r"|show|wrong)\w*$",
    re.IGNORECASE,
)
# What stands for a value that comes from elsewhere, or for none: a template, code, a path, an address, a reference, a
# label in some language, and what somebody has still to fill in
_ELSEWHERE: Final = re.compile(
    r".*(?:[\s`<>{}()\[\]]|\$\w|://|%\w+%|%s).*|[/.~$&].*|\w+(?:\.\w+)+|(?:arn|vault|ref|file|env|op|sops|enc):.*"
    r"|\W*|x+|.{1,3}"
    r"|.*(?:passw|secret|token|(?:api|access|private)[_-]?key|[_-]key$|your|replace|example|placeholder|redacted|hidden).*"
    r"|pass|pwd|null|none|true|false|always|never|optional|required|enabled|disabled|string|text|prompt|header|query",
    re.IGNORECASE | re.DOTALL,
)
_LABEL: Final = re.compile(r"[A-Z][a-z]+")
# Names of things have dashes, and words no digits
_NAMED: Final = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)+|[a-zA-Z_.-]+|\d+", re.ASCII)
_RUN: Final = re.compile(r"[A-Za-z0-9+/]{12,}")


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
    """By the keys, and by what stands in the files; no value is ever shown."""
    data = config.at("data")
    for key, value in data.entries():
        if value.unknown:
            if SECRET_NAME.search(key) or data.unknown:
                yield unknown(value)
        elif not isinstance(value.raw, str):
            continue
        elif SECRET_NAME.search(key) and _is_said(key, value.raw.strip()):
            yield fail(value, f"{key} is written down")
        elif (found := _found(value.raw)) is not None:
            yield fail(value, f"{key} has {found} written down")


def _found(text: str) -> str | None:
    """What of a file is a secret, in words."""
    if _SIGNS.search(text) is None:
        return None
    for words, sign in _BY_ITSELF.items():
        if sign.search(text):
            return words
    if any(_is_said("", found) for found in _IN_ADDRESS.findall(text)):
        return "the password of an address"
    lines = [(key, value) for key, _, value in _QUOTED.findall(text)] + _VARIABLE.findall(text)
    lines += [(key, value) for key, value in _PROPERTY.findall(text) if not _NAMED.fullmatch(value)]
    return "a line with a secret" if any(_is_said(key, value) for key, value in lines) else None


def _is_said(key: str, value: str) -> bool:
    """Whether it can be nothing but a secret: what may as well be a word about one is none."""
    if _ABOUT.search(key) or _ELSEWHERE.fullmatch(value) or _LABEL.fullmatch(value):
        return False
    return not _ALSO_NAMES.search(key) or any(map(_drawn, _RUN.findall(value)))


def _drawn(run: str) -> bool:
    """Whether nobody thought it out: a name has its letters and digits apart, and is short."""
    return any(map(str.isdigit, run)) and any(map(str.isalpha, run))
