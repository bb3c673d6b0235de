"""A JSON schema for the part of SARIF 2.1.0 that the review writes.

Like the standard's schema, it allows additional properties almost nowhere.
"""

from __future__ import annotations

from typing import Any

import jsonschema

TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
LEVEL: dict[str, Any] = {"enum": ["none", "note", "warning", "error"]}


def form(required: list[str] | None = None, **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these properties and no others."""
    return {"type": "object", "required": required or [], "properties": properties, "additionalProperties": False}


def many(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **more}


WORDS = form(["text"], text=TEXT, markdown=TEXT)
LOCATION = form(
    id={"type": "integer", "minimum": -1},
    physicalLocation=form(
        ["artifactLocation"],
        # A reference by RFC 3986: relative to the repository, so neither absolute nor with a backslash
        artifactLocation=form(["uri"], uri={"type": "string", "pattern": r"^[A-Za-z0-9._~!$&'()*+,;=@%/-]+$"}),
        region=form(startLine={"type": "integer", "minimum": 1}),
    ),
    logicalLocations=many(form(fullyQualifiedName=TEXT, kind=TEXT)),
)
RULE = form(
    ["id"],
    id=TEXT,
    shortDescription=WORDS,
    fullDescription=WORDS,
    help=WORDS,
    defaultConfiguration=form(level=LEVEL),
    properties={"type": "object", "properties": {"tags": many(TEXT, uniqueItems=True)}},
)
RESULT = form(
    ["message", "ruleId", "ruleIndex"],
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    kind={"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
    level=LEVEL,
    message=WORDS,
    baselineState={"enum": ["new", "unchanged", "updated", "absent"]},
    locations=many(LOCATION),
    relatedLocations=many(LOCATION, uniqueItems=True),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    suppressions=many(
        form(
            ["kind"],
            kind={"enum": ["inSource", "external"]},
            status={"enum": ["accepted", "underReview", "rejected"]},
            justification=TEXT,
        ),
        uniqueItems=True,
    ),
    properties={"type": "object"},
)
RUN = form(
    ["tool"],
    tool=form(
        ["driver"],
        driver=form(
            ["name"], name=TEXT, semanticVersion={"type": "string", "pattern": r"^\d+\.\d+\.\d+"}, rules=many(RULE)
        ),
    ),
    automationDetails=form(id=TEXT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    invocations=many(
        form(
            ["executionSuccessful"],
            executionSuccessful={"type": "boolean"},
            toolExecutionNotifications=many(form(["message"], level=LEVEL, message=WORDS)),
        )
    ),
    results=many(RESULT),
)
LOG = form(["version", "runs"], version={"const": "2.1.0"}, runs=many(RUN))


def wrong_in(log: dict[str, Any]) -> list[str]:
    """Return the violations of a log: of the schema, and of the standard's other rules."""
    found = [f"{error.json_path}: {error.message}" for error in jsonschema.Draft202012Validator(LOG).iter_errors(log)]
    for run in log["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        if len(rules) != len(set(rules)):
            found.append("a rule twice")
        for result in run["results"]:
            if rules[result["ruleIndex"]] != result["ruleId"]:
                found.append(f"{result['ruleId']}: the index is another rule's")
            if result.get("kind", "fail") != "fail" and result["level"] != "none":
                found.append(f"{result['ruleId']}: a level on what has not failed")
    return found
