"""Logs as lines of JSON, without secrets.

A record has a short message and facts: `log.info("workspace suspended", extra={"facts": {...}})`. Facts with names of
secrets, and anything that looks like a token or a key, are redacted: also in messages and exceptions of libraries.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO, cast

REDACTED = "[removed]"
AUDIT = "service.audit"

_SECRET_NAMES = re.compile(
    r"(authorization|cookie|password|passwd|secret|token|credential|private[-_]?key|access[-_]?key|api[-_]?key|"
    r"session[-_]?key|signature)",
    re.IGNORECASE,
)
# Names, kinds and counts of secrets are not secret.
_NOT_SECRET_NAMES = re.compile(r"(name|kind|type|id|count|seconds|ref|refs|reference|expires|audience)$", re.IGNORECASE)
_SECRET_SHAPES = re.compile(
    r"eyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*"  # a JSON Web Token
    r"|\be2b_[0-9a-f]{20,}"  # an API key
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"  # the id of an access key
    r"|(?i:\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}"
    r"|(?i:\b(?:aws_secret_access_key|aws_session_token|password|secret|token)\s*[=:]\s*)[^\s,;\"'}]{6,}"
    r"|(?i:x-amz-(?:security-token|signature|credential)=)[^\s&\"']+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
)


def clean(text: str) -> str:
    """Return the text with anything that looks like a secret redacted."""
    return _SECRET_SHAPES.sub(REDACTED, text)


def _cleaned(value: Any, name: str = "") -> Any:
    if name and _SECRET_NAMES.search(name) and not _NOT_SECRET_NAMES.search(name):
        return REDACTED
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {str(key): _cleaned(inner, str(key)) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_cleaned(inner, name) for inner in cast("list[Any]", value)]
    return value if value is None or isinstance(value, bool | int | float) else clean(str(value))


class JsonLines(logging.Formatter):
    """Format each record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger, message and facts as JSON."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clean(record.getMessage()),
        }
        facts: object = getattr(record, "facts", None)
        if isinstance(facts, Mapping):
            line["facts"] = _cleaned(facts)
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = clean("".join(traceback.format_exception(record.exc_info[1])))
        return json.dumps(line, default=str)


def set_up(level: str, stream: TextIO | None = None) -> None:
    """Log everything of this process in this format, libraries included, and nothing twice."""
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # The audit log is written at every level.
    logging.getLogger(AUDIT).setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers[:] = []
        library.propagate = True
    # These log every request with its URL, and some with its headers.
    for name in (
        "uvicorn.access",
        "aiohttp",
        "asyncio",
        "httpx",
        "httpx2",
        "httpcore",
        "httpcore2",
        "hpack",
        "botocore",
        "urllib3",
    ):
        logging.getLogger(name).setLevel(logging.WARNING)


def audit(action: str, **facts: object) -> None:
    """Write an audit record of an action, at every log level."""
    logging.getLogger(AUDIT).info(action, extra={"facts": facts})
