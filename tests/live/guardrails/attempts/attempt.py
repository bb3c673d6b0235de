"""An attempt: a user's request, the rule that it concerns, and whether the API server must accept it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentenv.rehearsal.controlplane.client import ApiError
from tests.live.guardrails.guarded import NODE, Guarded

Object = dict[str, Any]

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
APPLY, STRATEGIC = "application/apply-patch+yaml", "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Request:
    """A request as a dry run: the server validates it and stores nothing."""

    method: str
    path: str
    body: Any = None
    content: str = "application/json"
    dry: bool = True


@dataclass(frozen=True)
class Attempt:
    """One request."""

    policy: str
    rules: tuple[str, ...]
    what: str
    user: str
    request: Callable[[Guarded], Request]
    passes: bool
    reaches_node: bool = False  # whether it needs a kubelet after admission, which there is none of

    @property
    def id(self) -> str:
        """Return the name of the attempt among the tests."""
        return f"{self.policy}: {'/'.join(self.rules)}: {self.what} ({'passes' if self.passes else 'refused'})"

    def answer(self, guarded: Guarded) -> str:
        """Return the server's refusal, or an empty text if it accepts the request."""
        request = self.request(guarded)
        if self.user == "node":
            client = guarded.client_as(f"system:node:{NODE}", "system:nodes")
        else:
            client = guarded.client_as(self.user) if self.user else guarded.admin
        query = {"dryRun": "All", "fieldManager": "attempt"} if request.dry else {}
        if request.content == APPLY:
            query["force"] = "true"
        if request.method == "DELETE":
            query.pop("fieldManager", None)
        try:
            client.request(request.method, request.path, request.body, content=request.content, query=query)
        except (ApiError, TimeoutError) as error:
            # A request that reaches a node gets no response here.
            return str(error) or "no answer"
        return ""


@dataclass(frozen=True)
class Table:
    """The attempts at one policy."""

    policy: str
    rows: list[Attempt]

    def refused(self, rule: str, what: str, user: str, request: Callable[[Guarded], Request]) -> None:
        """Add an attempt that this rule must refuse."""
        self.rows.append(Attempt(self.policy, (rule,), what, user, request, passes=False))

    def passes(
        self, rules: str, what: str, user: str, request: Callable[[Guarded], Request], *, reaches_node: bool = False
    ) -> None:
        """Add an attempt that must be allowed, although these rules match it."""
        self.rows.append(Attempt(self.policy, tuple(rules.split()), what, user, request, True, reaches_node))


def claim_path(guarded: Guarded) -> str:
    """Return the path of the claim that exists."""
    return guarded.extension("sandboxclaims", guarded.claim)


def sandbox_path(guarded: Guarded) -> str:
    """Return the path of its sandbox."""
    return guarded.extension("sandboxes", guarded.sandbox)


def pod_path(guarded: Guarded) -> str:
    """Return the path of its pod."""
    return guarded.core("pods", guarded.sandbox)


def volume_path(guarded: Guarded) -> str:
    """Return the path of the volume of its home."""
    return f"/api/v1/persistentvolumes/{guarded.volume}"


def enter(namespace: str) -> Callable[[Guarded], Request]:
    """Run a command in any pod of a namespace."""
    return lambda _: Request("GET", f"/api/v1/namespaces/{namespace}/pods/any/exec?command=true", dry=False)


def create(obj: Callable[[Guarded], Object]) -> Callable[[Guarded], Request]:
    """Create an object."""

    def request(guarded: Guarded) -> Request:
        document = obj(guarded)
        return Request("POST", guarded.admin.path(document, named=False), document)

    return request


def apply(obj: Callable[[Guarded], Object]) -> Callable[[Guarded], Request]:
    """Apply an object by server-side apply, with force."""

    def request(guarded: Guarded) -> Request:
        document = obj(guarded)
        return Request("PATCH", guarded.admin.path(document), document, APPLY)

    return request


def merge(path: Callable[[Guarded], str], change: Any, content: str = MERGE) -> Callable[[Guarded], Request]:
    """Change an object by a merge patch."""
    return lambda guarded: Request("PATCH", path(guarded), change(guarded) if callable(change) else change, content)


def patch(path: Callable[[Guarded], str], *steps: Object) -> Callable[[Guarded], Request]:
    """Change an object by a JSON patch."""
    return lambda guarded: Request("PATCH", path(guarded), list(steps), JSON_PATCH)


def replace(
    path: Callable[[Guarded], str], change: Callable[[Object], None], part: str = ""
) -> Callable[[Guarded], Request]:
    """Read, change and replace an object, or its subresource."""

    def request(guarded: Guarded) -> Request:
        document = guarded.admin.get(path(guarded))
        change(document)
        return Request("PUT", path(guarded) + part, document)

    return request


def delete(path: Callable[[Guarded], str]) -> Callable[[Guarded], Request]:
    """Delete an object."""
    return lambda guarded: Request("DELETE", path(guarded))


def ended(path: Callable[[Guarded], str], how: Object) -> Callable[[Guarded], Request]:
    """Delete an object with options in the body, which override those in the query."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], **how}
    return lambda guarded: Request("DELETE", path(guarded), options)


def changed(obj: Callable[[Guarded], Object], change: Callable[[Object], Any]) -> Callable[[Guarded], Object]:
    """Return an object with a change."""

    def modified(guarded: Guarded) -> Object:
        document = obj(guarded)
        change(document)
        return document

    return modified


def put(place: str, value: Any) -> Callable[[Object], None]:
    """Return a change that sets the value at a dotted path; a number is a list index, and `-` its end."""

    def change(obj: Object) -> None:
        *way, last = place.split("|") if "|" in place else place.split(".")
        inside: Any = obj
        for word in way:
            inside = inside[int(word)] if word.isdigit() else inside.setdefault(word, {})
        if last == "-":
            inside.append(value)
        elif value is None:
            inside.pop(last, None)
        else:
            inside[int(last) if last.isdigit() else last] = value

    return change
