"""Recognize secrets in names and texts of configuration, as rules and the check of stack files do.

A message about one must not show it.
"""

from __future__ import annotations

import re
from typing import Final

# Endings of variable names that mean a secret itself, and not its location
SECRET_NAME: Final = re.compile(
    r"(^|[_.-])(PASSWORD|PASSWD|PASSPHRASE|SECRET|SECRET_?KEY|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?)$",
    re.IGNORECASE,
)
# Secrets regardless of their key; a private key needs content after its first line
_SECRETS: Final = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:\\[rn]|\s)+(?:[A-Za-z0-9+/]{10}|Proc-Type:)"),
    # Keys in AWS's documentation end in EXAMPLE
    "the id of an access key": re.compile(r"\b(?:AKIA|ASIA)(?![0-9A-Z]*EXAMPLE)[0-9A-Z]{16}\b"),
    "an access key": re.compile(
        r"secret_?access_?key[\"']?[ \t]*[=:][ \t]*[\"']?(?!\w*EXAMPLE)[A-Za-z0-9+/]{40}(?![\w+/=])", re.IGNORECASE
    ),
    "a token of a service": re.compile(
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22}|glpat-[\w-]{20}|xox[abprs]-[\w-]{20}|npm_[A-Za-z0-9]{36}"
        r"|hf_[A-Za-z0-9]{34}|AIza[\w-]{35}|sk-(?:[a-z]+-)*\w{32})"
    ),
}
_PASSWORD_IN_URL: Final = re.compile(r"\w://[^\s/:@\"'<>]*:([^\s/@\"']+)@[\w.\[-]")
_KEYWORDS: Final = r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET_KEY|CLIENT_?SECRET|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)"
# A quoted string assigned to a name for a secret; an unquoted one is often the name of a variable
_QUOTED: Final = re.compile(
    rf"(?:^[ \t]*(?:export[ \t]+|-[ \t]+)?|[{{,(][ \t]*)[\"']?([\w.-]*{_KEYWORDS})[\"']?"
    r"[ \t]*[=:][ \t]*([\"'])([^\"'\n]+)\2",
    re.IGNORECASE | re.MULTILINE,
)
# Unquoted values in files of variables, credentials and properties
_VARIABLE: Final = re.compile(rf"^[ \t]*(?:export[ \t]+)?([A-Z0-9_]*{_KEYWORDS})=([^\s\"';&|]+)[ \t\r]*$", re.MULTILINE)
_PROPERTY: Final = re.compile(
    rf"^[ \t]*([\w.-]*{_KEYWORDS})[ \t]*[=:][ \t]*([^\s\"',;]+)[ \t\r]*$", re.IGNORECASE | re.MULTILINE
)
# A quick filter: most texts match none of these
_HINTS: Final = re.compile(
    r"passw|passphrase|secret|(?:api|access|private)_?key|PRIVATE KEY|://|AKIA|ASIA|gh[pousr]_|github_pat|glpat-|xox|npm_"
    r"|hf_|AIza|sk-",
    re.IGNORECASE,
)
# Names of Secrets and tokens have these endings too, so the value must look random
_AMBIGUOUS_KEYS: Final = re.compile(r"(?:(?<!CLIENT)(?<!CLIENT_)SECRET|SECRET_?KEY|TOKEN|CREDENTIALS?)$", re.IGNORECASE)
# Settings and labels about passwords
_ABOUT_SECRETS: Final = re.compile(
    r"(?:allow|ask|change|confirm|disable|empty|enable|enter|forgot|hide|invalid|missing|prompt|random|requir|reset"
    r"|show|wrong)\w*$",
    re.IGNORECASE,
)
# Values that are not secrets: a template, code, a path, an address, a reference, a label in some language, or a
# placeholder
_NOT_SECRET: Final = re.compile(
    r".*(?:[\s`<>{}()\[\]]|\$\w|://|%\w+%|%s).*|[/.~$&].*|\w+(?:\.\w+)+|(?:arn|vault|ref|file|env|op|sops|enc):.*"
    r"|\W*|x+|.{1,3}"
    r"|.*(?:passw|secret|token|(?:api|access|private)[_-]?key|[_-]key$|your|replace|example|placeholder|redacted|hidden).*"
    r"|pass|pwd|null|none|true|false|always|never|optional|required|enabled|disabled|string|text|prompt|header|query",
    re.IGNORECASE | re.DOTALL,
)
_LABEL: Final = re.compile(r"[A-Z][a-z]+")
# Names have dashes, and words have no digits
_NAME: Final = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)+|[a-zA-Z_.-]+|\d+", re.ASCII)
_LONG_TOKEN: Final = re.compile(r"[A-Za-z0-9+/]{12,}")


def secret_in(text: str, *, lines: bool = True) -> str | None:
    """Return a description of the secret in a text; None if there is none. With `lines`, it may assign variables."""
    if _HINTS.search(text) is None:
        return None
    for description, pattern in _SECRETS.items():
        if pattern.search(text):
            return description
    if any(is_secret("", password) for password in _PASSWORD_IN_URL.findall(text)):
        return "a URL with a password"
    if not lines:
        return None
    assigned = [(key, value) for key, _, value in _QUOTED.findall(text)] + _VARIABLE.findall(text)
    assigned += [(key, value) for key, value in _PROPERTY.findall(text) if not _NAME.fullmatch(value)]
    return "a line with a secret" if any(is_secret(key, value) for key, value in assigned) else None


def is_secret(key: str, value: str) -> bool:
    """Return whether a value can only be a secret, and not a label or a placeholder."""
    if _ABOUT_SECRETS.search(key) or _NOT_SECRET.fullmatch(value) or _LABEL.fullmatch(value):
        return False
    return not _AMBIGUOUS_KEYS.search(key) or any(map(_looks_random, _LONG_TOKEN.findall(value)))


def _looks_random(token: str) -> bool:
    """Return whether a long token mixes letters and digits, as names do not."""
    return any(map(str.isdigit, token)) and any(map(str.isalpha, token))
