"""Policy documents: the grammar that IAM, KMS, EFS, SQS and S3 share, and each service's additional rules.

AWS rejects an invalid document; moto checks some and accepts most. Violations are found here; the handlers raise the
first one as their service's own error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agentenv.core.iam.documents import as_list, read, statements

ELEMENTS = {
    "Sid",
    "Effect",
    "Principal",
    "NotPrincipal",
    "Action",
    "NotAction",
    "Resource",
    "NotResource",
    "Condition",
}
ACTION = re.compile(r"\*|[a-zA-Z0-9-]+:[a-zA-Z0-9*?]+")
SID = re.compile(r"[a-zA-Z0-9]*")
PRINCIPALS = ("AWS", "Service", "Federated", "CanonicalUser")
OPERATOR = re.compile(
    r"(ForAllValues:|ForAnyValue:)?"
    r"(String(Not)?(Equals|EqualsIgnoreCase|Like)|Numeric(Not)?Equals|Numeric(LessThan|GreaterThan)(Equals)?"
    r"|Date(Not)?Equals|Date(LessThan|GreaterThan)(Equals)?|Bool|BinaryEquals|(Not)?IpAddress"
    r"|Arn(Not)?(Equals|Like)|Null)(IfExists)?"
)
ROLE_OR_USER = re.compile(r"arn:aws[\w-]*:iam::(\d{12}):(role|user)/.+")


@dataclass(frozen=True)
class Kind:
    """The additional rules of a kind of policy."""

    principal: bool
    resource: bool | None  # None: may be there or not
    plain_sids: bool = False


IDENTITY = Kind(principal=False, resource=True, plain_sids=True)
TRUST = Kind(principal=True, resource=False)
ON_RESOURCE = Kind(principal=True, resource=None)
ON_KEY = Kind(principal=True, resource=True)


def violations(text: str, kind: Kind) -> list[str]:
    """Return everything that AWS would reject; it reports the first."""
    document, broken = read(text)
    return broken or list(_document(document, kind))


def _document(document: dict[str, Any], kind: Kind) -> Iterator[str]:
    for name in document:
        if name not in {"Version", "Id", "Statement"}:
            yield f"The policy has an element that is not known: {name}."
    if document.get("Version", "2008-10-17") not in ("2012-10-17", "2008-10-17"):
        yield f"The policy must contain a valid version string, not {document['Version']!r}."
    rows = document.get("Statement")
    if not rows:
        yield "Missing required field Statement."
        return
    sids: set[str] = set()
    for statement in as_list(rows):
        if not isinstance(statement, dict):
            yield "A statement is not an object."
            continue
        yield from _statement(statement, kind)
        sid = statement.get("Sid")
        if sid is not None:
            if not isinstance(sid, str) or (kind.plain_sids and not SID.fullmatch(sid)):
                yield f"Statement IDs (SID) must be alpha-numeric: {sid!r}."
            elif sid and sid in sids:
                yield f"Statement IDs (SID) in a single policy must be unique: {sid}."
            else:
                sids.add(sid)


def _statement(statement: dict[str, Any], kind: Kind) -> Iterator[str]:
    for name in statement:
        if name not in ELEMENTS:
            yield f"A statement has an element that is not known: {name}."
    if statement.get("Effect") not in ("Allow", "Deny"):
        yield f"Effect must be Allow or Deny, not {statement.get('Effect')!r}."
    if ("Action" in statement) == ("NotAction" in statement):
        yield "A statement has either Action or NotAction, and not both."
    for action in as_list(statement.get("Action", statement.get("NotAction", []))):
        if not isinstance(action, str) or not ACTION.fullmatch(action):
            yield f"Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.: {action!r}."
    has_principal = "Principal" in statement or "NotPrincipal" in statement
    has_resource = "Resource" in statement or "NotResource" in statement
    if has_principal and not kind.principal:
        yield "Policy document should not specify a principal."
    if kind.principal and not has_principal:
        yield "Missing required field Principal."
    if has_resource and kind.resource is False:
        yield "Has prohibited field Resource."
    if kind.resource and not has_resource:
        yield "Policy statement must contain resources."
    yield from _resources(statement)
    yield from _principal(statement.get("Principal", statement.get("NotPrincipal")), present=has_principal)
    yield from _condition(statement.get("Condition", {}))


def _resources(statement: dict[str, Any]) -> Iterator[str]:
    for resource in as_list(statement.get("Resource", statement.get("NotResource", []))):
        if not isinstance(resource, str) or not (resource == "*" or resource.startswith(("arn:", "*"))):
            yield f'Resource {resource} must be in ARN format or "*".'


def _principal(principal: Any, *, present: bool) -> Iterator[str]:
    if not present or principal == "*":
        return
    if not isinstance(principal, dict) or not principal:
        yield f"Invalid principal in policy: {principal!r}."
        return
    for kind, values in principal.items():
        if kind not in PRINCIPALS:
            yield f"Invalid principal in policy: {kind!r} is none of {', '.join(PRINCIPALS)}."
        for value in as_list(values):
            if not isinstance(value, str) or not value:
                yield f"Invalid principal in policy: {value!r}."
            elif kind == "AWS" and not re.fullmatch(r"\*|\d{12}|arn:aws[\w-]*:(iam|sts)::.+|A[A-Z0-9]{15,}", value):
                yield f'Invalid principal in policy: "AWS":"{value}".'
            elif kind == "Service" and not re.fullmatch(
                r"[a-z0-9.-]+\.(amazonaws\.com(\.cn)?|amazon\.com|aws\.internal)", value
            ):
                yield f'Invalid principal in policy: "SERVICE":"{value}".'


def _condition(condition: Any) -> Iterator[str]:
    if not isinstance(condition, dict):
        yield "A condition is not an object."
        return
    for operator, tests in condition.items():
        if not OPERATOR.fullmatch(operator):
            yield f"Invalid Condition type : {operator}."
        if not isinstance(tests, dict) or not tests:
            yield f"The condition {operator} tests nothing."
            continue
        for key, values in tests.items():
            for value in as_list(values):
                if not isinstance(value, str | bool | int | float):
                    yield f"The condition {operator} {key} is compared with {value!r}."


def missing_principals(text: str, account: str, exists: Callable[[str], bool]) -> list[str]:
    """Return the roles and users of this account that a policy names and that do not exist."""
    document, _ = read(text)
    missing: list[str] = []
    for statement in statements(document):
        for value in statement.principals("AWS"):
            match = ROLE_OR_USER.fullmatch(str(value))
            if match and match[1] == account and not exists(str(value)):
                missing.append(str(value))
    return missing


def compact_length(text: str) -> int:
    """Return the length that counts for quotas: IAM ignores white space."""
    return len(re.sub(r"\s", "", text))
