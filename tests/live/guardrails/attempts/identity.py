"""Attempts to give a sandbox an identity, or to get its identity."""

from __future__ import annotations

from typing import Any

from tests.live.guardrails.attempts.attempt import Attempt, Request, Table, apply, create, merge, patch
from tests.live.guardrails.guarded import CLASS, DEPLOYER, INSIDER, SERVICE, Guarded, Object, plain

ATTEMPTS: list[Attempt] = []
_RBAC = "rbac.authorization.k8s.io"
_SPACE = f"sandbox-{CLASS}"


def _binding(subject: Object, namespace: str | None = "default") -> Any:
    binding_subject = subject if subject["kind"] == "ServiceAccount" else {"apiGroup": _RBAC, **subject}
    rest = {"roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "view"}, "subjects": [binding_subject]}
    if namespace is None:
        about = {"name": "attempt"}
        return lambda _: {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": about, **rest}
    return lambda guarded: plain(guarded, f"{_RBAC}/v1", "RoleBinding", namespace=namespace, **rest)


_ACCOUNT: Object = {"kind": "ServiceAccount", "name": "sandbox", "namespace": _SPACE}
_bindings = Table("bindings", ATTEMPTS)
for _what, _subject in (
    ("a sandbox's account", _ACCOUNT),
    ("a class's other account", {**_ACCOUNT, "name": "default"}),
    ("a sandbox's account by its user name", {"kind": "User", "name": f"system:serviceaccount:{_SPACE}:sandbox"}),
    ("the accounts of a class", {"kind": "Group", "name": f"system:serviceaccounts:{_SPACE}"}),
    ("all accounts", {"kind": "Group", "name": "system:serviceaccounts"}),
    ("everybody with a name", {"kind": "Group", "name": "system:authenticated"}),
    ("everybody", {"kind": "Group", "name": "system:unauthenticated"}),
):
    _bindings.refused(
        "binding-subject", f"{_what} in the class's namespace", INSIDER, create(_binding(_subject, _SPACE))
    )
    _bindings.refused("binding-subject", f"{_what} elsewhere, by a deployment", DEPLOYER, create(_binding(_subject)))
    _bindings.refused("binding-subject", f"{_what} everywhere", DEPLOYER, create(_binding(_subject, None)))


def _leftover(guarded: Guarded) -> str:
    return f"/apis/{_RBAC}/v1/clusterrolebindings/but-guardrails"


_bindings.refused(
    "binding-subject",
    "an existing one, by a JSON patch",
    DEPLOYER,
    patch(_leftover, {"op": "add", "path": "/subjects/-", "value": _ACCOUNT}),
)
_bindings.refused(
    "binding-subject", "an existing one, by a merge patch", DEPLOYER, merge(_leftover, {"subjects": [_ACCOUNT]})
)
_bindings.refused("binding-subject", "by server-side apply", DEPLOYER, apply(_binding(_ACCOUNT)))
_bindings.passes("binding-subject", "somebody by name", INSIDER, create(_binding({"kind": "User", "name": "jane"})))
_bindings.passes(
    "binding-subject",
    "an account of the platform",
    DEPLOYER,
    create(_binding({**_ACCOUNT, "namespace": "workspace-service"})),
)
_bindings.passes(
    "binding-subject",
    "the schedules of pools",
    DEPLOYER,
    create(_binding({**_ACCOUNT, "namespace": "sandbox-schedules"}, _SPACE)),
)
_bindings.passes(
    "binding-subject",
    "a label of one that Kubernetes comes with",
    DEPLOYER,
    merge(lambda _: f"/apis/{_RBAC}/v1/clusterrolebindings/system:basic-user", {"metadata": {"labels": {"x": "y"}}}),
)


def _token(**bound: Any) -> Any:
    def request(guarded: Guarded) -> Request:
        spec: Object = {"expirationSeconds": 600}
        if bound:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": "bound", "uid": guarded.bound}
        obj = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return Request("POST", guarded.core("serviceaccounts", "default", guarded.open_namespace) + "/token", obj)

    return request


def _secret(kind: str) -> Any:
    about = {"name": "attempt", "namespace": _SPACE, "annotations": {"kubernetes.io/service-account.name": "sandbox"}}
    return lambda _: {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": kind}


_tokens = Table("tokens", ATTEMPTS)
_tokens.refused("token-by", "a token for somebody who may edit everything", INSIDER, _token())
_tokens.passes("token-by", "a token for the node that runs it", "node", _token(bound=True))
_tokens.refused("token-by", "a token for the service", SERVICE, _token())
_tokens.passes("token-by", "a token for a deployer", DEPLOYER, _token())
_tokens.refused(
    "token-lasting", "a token that never ends", INSIDER, create(_secret("kubernetes.io/service-account-token"))
)
_tokens.refused(
    "token-lasting",
    "a token that never ends, for a deployment",
    DEPLOYER,
    create(_secret("kubernetes.io/service-account-token")),
)
_tokens.passes("token-lasting", "another secret", INSIDER, create(_secret("Opaque")))
