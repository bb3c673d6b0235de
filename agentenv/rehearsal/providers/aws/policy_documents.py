"""Build IAM policy documents from their parts, as the official provider's function does, without an API call."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

VERSION: Final = "2012-10-17"
LISTS: Final = (
    ("actions", "Action"),
    ("notActions", "NotAction"),
    ("resources", "Resource"),
    ("notResources", "NotResource"),
)


def policy_document(a: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of sources, statements and overrides; a later statement replaces one with the same Sid."""
    version = a.get("version") or VERSION
    merged: list[dict[str, Any]] = []
    for source in [*_texts(a.get("sourceJson")), *(a.get("sourcePolicyDocuments") or [])]:
        merged += _statements(source)
    _check_duplicate_sids(merged)
    merged = _override(merged, [_statement(s) for s in a.get("statements") or []])
    for override in [*_texts(a.get("overrideJson")), *(a.get("overridePolicyDocuments") or [])]:
        merged = _override(merged, _statements(override))
    document: dict[str, Any] = {"Version": version}
    if a.get("policyId"):
        document["Id"] = a["policyId"]
    if merged:
        document["Statement"] = merged
    text = json.dumps(document, indent=2)
    mini = json.dumps(document, separators=(",", ":"))
    return {"json": text, "minifiedJson": mini, "id": str(zlib.crc32(text.encode())), "version": version}


def _texts(text: str | None) -> list[str]:
    return [text] if text else []


def _statements(text: str) -> list[dict[str, Any]]:
    if not text:
        return []
    statements = json.loads(text).get("Statement") or []
    return list(statements) if isinstance(statements, list) else [statements]


def _check_duplicate_sids(statements: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    for statement in statements:
        sid = statement.get("Sid")
        if sid and sid in seen:
            raise ValueError(f"two source policy documents have a statement with the Sid {sid!r}")
        seen.add(sid or "")


def _override(base: list[dict[str, Any]], overrides: list[dict[str, Any]]) -> list[dict[str, Any]]:
    named = {statement["Sid"]: statement for statement in overrides if statement.get("Sid")}
    merged = [named.pop(statement["Sid"], statement) if statement.get("Sid") else statement for statement in base]
    return merged + [s for s in overrides if not s.get("Sid") or s["Sid"] in named]


def _statement(block: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if block.get("sid"):
        out["Sid"] = block["sid"]
    out["Effect"] = block.get("effect") or "Allow"
    for name, key in LISTS:
        if block.get(name):
            out[key] = _one_or_many(block[name])
    for name, key in (("principals", "Principal"), ("notPrincipals", "NotPrincipal")):
        if block.get(name):
            out[key] = _principals(block[name])
    if block.get("conditions"):
        out["Condition"] = _conditions(block["conditions"])
    return out


def _one_or_many(values: list[Any]) -> Any:
    unique = sorted({str(value) for value in values}, reverse=True)
    return unique[0] if len(unique) == 1 else unique


def _principals(blocks: list[Mapping[str, Any]]) -> Any:
    out: dict[str, list[Any]] = {}
    for block in blocks:
        if block["type"] == "*" and block["identifiers"] == ["*"]:
            return "*"
        out.setdefault(block["type"], []).extend(block["identifiers"])
    return {kind: _one_or_many(identifiers) for kind, identifiers in out.items()}


def _conditions(blocks: list[Mapping[str, Any]]) -> dict[str, Any]:
    out: dict[str, dict[str, Any]] = {}
    for block in blocks:
        values = block["values"]
        out.setdefault(block["test"], {})[block["variable"]] = values[0] if len(values) == 1 else list(values)
    return out
