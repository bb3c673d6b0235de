"""Read policy documents: their statements, and what each allows or denies.

The rules of the policy packs read documents that may be unknown in part, at a preview. The rehearsal evaluates known
documents for requests (`evaluation`). So every answer may be None, if it depends on a value that is `UNKNOWN`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final, Literal, cast, get_args

from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown, as_mapping
from agentenv.core.iam.arn_patterns import ResourceKind, matches_everything
from agentenv.core.iam.conditions import Condition, conditions_of, texts_of
from agentenv.core.iam.patterns import matches

PrincipalKind = Literal["AWS", "Service", "Federated"]
PRINCIPAL_KINDS: Final[tuple[PrincipalKind, ...]] = get_args(PrincipalKind)


class _DuplicateKey(ValueError):
    """An object has a key twice."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise _DuplicateKey(f"The element {name} appears twice.")
    return dict(pairs)


def as_list(value: Any) -> list[Any]:
    """Return a value or list as a list."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def read(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the document in a text, and the errors that keep it from being one."""
    try:
        document = json.loads(text, object_pairs_hook=_unique_keys)
    except _DuplicateKey as error:
        return {}, [str(error)]
    except ValueError as error:
        return {}, [f"This policy contains invalid Json: {error}"]
    if not isinstance(document, dict):
        return {}, ["The policy is not an object."]
    return cast("dict[str, Any]", document), []


def policy_document(*rows: dict[str, Any]) -> dict[str, Any]:
    """Return a policy of these statements."""
    return {"Version": "2012-10-17", "Statement": list(rows)}


def statements(document: Mapping[str, Any]) -> list[Statement]:
    """Return the statements of a document, which may be one or a list of them."""
    rows = as_list(document.get("Statement", []))
    return [Statement(cast("dict[str, Any]", row)) for row in rows if isinstance(row, dict)]


class Statement:
    """A statement of a policy document: a mapping, or `UNKNOWN`."""

    def __init__(self, raw: object) -> None:
        self.raw: object = raw

    def get(self, key: str) -> object:
        """Return an element; None if it is missing."""
        mapping = as_mapping(self.raw)
        return UNKNOWN if mapping is None else mapping.get(key)

    def texts(self, key: str) -> tuple[str | Unknown, ...]:
        """Return the strings of an element that is one value or a list of them."""
        return texts_of(self.get(key))

    def has(self, key: str) -> bool:
        """Return whether it has an element, also one with an unknown value; an unknown statement has none."""
        return (as_mapping(self.raw) or {}).get(key) is not None

    @property
    def allows(self) -> bool | None:
        """Return whether its effect is Allow."""
        effect = self.get("Effect")
        return None if effect is UNKNOWN else effect == "Allow"

    @property
    def denies(self) -> bool | None:
        """Return whether its effect is Deny."""
        effect = self.get("Effect")
        return None if effect is UNKNOWN else effect == "Deny"

    def matches_action(self, action: str) -> bool | None:
        """Return whether it applies to an action; names of actions ignore case."""
        negated = self.has("NotAction")
        patterns = self.texts("NotAction" if negated else "Action")
        answer = any_of(None if text is UNKNOWN else matches(text.lower(), action.lower()) for text in patterns)
        return not answer if negated and answer is not None else answer

    def matches_resource(self, arn: str) -> bool | None:
        """Return whether it applies to a resource."""
        negated = self.has("NotResource")
        patterns = self.texts("NotResource" if negated else "Resource")
        answer = any_of(None if text is UNKNOWN else matches(text, arn) for text in patterns)
        return not answer if negated and answer is not None else answer

    @property
    def matches_all_resources(self) -> bool | None:
        """Return whether it applies to every resource: with a wildcard or `NotResource`."""
        if self.has("NotResource"):
            return True
        return any_of(None if text is UNKNOWN else matches_everything(text) for text in self._resources)

    def matches_all_of(self, kind: ResourceKind) -> bool | None:
        """Return whether it applies to every resource of a kind."""
        if self.has("NotResource"):
            return True
        return any_of(None if text is UNKNOWN else kind.all_match(text) for text in self._resources)

    @cached_property
    def _resources(self) -> tuple[str | Unknown, ...]:
        return self.texts("Resource")

    def principals(self, kind: PrincipalKind) -> tuple[str | Unknown, ...]:
        """Return the principals of a kind; none if the principal is `*`."""
        principal = self.get("Principal")
        if principal is None or principal == "*":
            return ()
        if not isinstance(principal, Mapping):
            return (UNKNOWN,)
        return texts_of(cast("Mapping[str, object]", principal).get(kind))

    @property
    def has_every_principal(self) -> bool | None:
        """Return whether its principal is everybody, in any account. `NotPrincipal` excludes only a few."""
        if self.has("NotPrincipal"):
            return True
        principal = self.get("Principal")
        if principal is None or principal == "*":
            return principal == "*"
        if not isinstance(principal, Mapping):
            return None
        return any_of(
            None if value is UNKNOWN else value == "*"
            for kind, values in cast("Mapping[str, object]", principal).items()
            # A token of any issuer is available to everybody too
            if kind in {"AWS", "Federated", "*"}
            for value in texts_of(values)
        )

    def is_open_to_everybody(self, *, by_address: bool = False) -> bool | None:
        """Return whether its principal is everybody, and no condition excludes callers."""
        every = self.has_every_principal
        if not every:
            return every
        answers = [condition.excludes_callers(by_address=by_address) for condition in self.conditions]
        if True in answers:
            return False
        return None if None in answers or any(condition.key == "*" for condition in self.conditions) else True

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Return its conditions, all of which must be met."""
        return tuple(conditions_of(self.get("Condition")))

    @property
    def is_conditional(self) -> bool:
        """Return whether it has conditions."""
        return bool(self.conditions)

    @cached_property
    def excludes_requests(self) -> bool | None:
        """Return whether a condition excludes some requests."""
        return any_of(condition.excludes_requests() for condition in self.conditions)

    def conditions_on(self, key: str) -> list[Condition]:
        """Return the conditions on a key."""
        return [condition for condition in self.conditions if condition.key == key.lower()]


def any_of(answers: Iterable[bool | None]) -> bool | None:
    """Return True if any answer is; else None if any is not known."""
    distinct = set(answers)
    return True if True in distinct else None if None in distinct else False
