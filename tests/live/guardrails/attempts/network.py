"""Attempts to allow traffic to or from a class's namespace."""

from __future__ import annotations

from typing import Any

from tests.live.guardrails.attempts.attempt import Attempt, Table, apply, create, delete, merge, patch
from tests.live.guardrails.guarded import (
    COLLECTOR,
    CONTROLLER,
    DEPLOYER,
    INSIDER,
    NETWORK,
    NODE_AGENT,
    OTHER_REACH,
    SERVICE,
    Guarded,
    Object,
    plain,
)

ATTEMPTS: list[Attempt] = []


def _leftover(guarded: Guarded) -> str:
    return guarded.core("services", "leftover", guarded.open_namespace)


def _service(**spec: Any) -> Any:
    service_spec = {"selector": {"app": "x"}, "ports": [{"port": 80}], **spec}
    return lambda guarded: plain(guarded, "v1", "Service", spec=service_spec)


_services = Table("services", ATTEMPTS)
for _what, _spec in (
    ("a load balancer", {"type": "LoadBalancer"}),
    ("a port on every node", {"type": "NodePort"}),
    ("an address from outside", {"externalIPs": ["203.0.113.7"]}),
    ("a name elsewhere", {"type": "ExternalName", "externalName": "example.com", "ports": []}),
):
    for _user in (INSIDER, DEPLOYER, CONTROLLER):
        _services.refused("service-type", f"{_what} by {_user or 'a deployment'}", _user, create(_service(**_spec)))
_services.refused(
    "service-type",
    "a load balancer of an existing one, by a merge patch",
    INSIDER,
    merge(_leftover, {"spec": {"type": "LoadBalancer"}}),
)
_services.refused(
    "service-type",
    "an address of an existing one, by a JSON patch",
    SERVICE,
    patch(_leftover, {"op": "add", "path": "/spec/externalIPs", "value": ["203.0.113.7"]}),
)
_services.refused("service-type", "a load balancer by server-side apply", INSIDER, apply(_service(type="LoadBalancer")))
_services.passes(
    "service-type",
    "another port of an existing one",
    INSIDER,
    patch(_leftover, {"op": "replace", "path": "/spec/ports/0/port", "value": 81}),
)
_services.passes(
    "service-type",
    "an annotation of an existing one",
    INSIDER,
    merge(_leftover, {"metadata": {"annotations": {"x": "y"}}}),
)


def _ingress(guarded: Guarded) -> Any:
    backend = {"service": {"name": "leftover", "port": {"number": 80}}}
    return plain(guarded, "networking.k8s.io/v1", "Ingress", spec={"defaultBackend": backend})


_routes = Table("routes", ATTEMPTS)
_routes.refused("route-by", "an Ingress by somebody", INSIDER, create(_ingress))
_routes.refused("route-by", "an Ingress by the service", SERVICE, create(_ingress))
_routes.refused("route-by", "an Ingress by server-side apply", INSIDER, apply(_ingress))
_routes.passes("route-by", "an Ingress by a deployment", DEPLOYER, create(_ingress))


def _reach(group: str, kind: str, namespaced: bool) -> Any:
    def policy_object(guarded: Guarded) -> Object:
        obj = plain(guarded, f"{group}/{NETWORK}", kind, spec={"anything": ["0.0.0.0/0"]})
        if not namespaced:
            obj["metadata"].pop("namespace")
        return obj

    return policy_object


def _endpoint(guarded: Guarded) -> str:
    return f"/apis/networking.k8s.aws/{NETWORK}/namespaces/{guarded.namespace}/policyendpoints/standing"


_reaching = Table("reach", ATTEMPTS)
for _group, _kind, _spaced in OTHER_REACH:
    _thing = _reach(_group, _kind, _spaced)
    for _user, _who in ((INSIDER, "somebody"), (SERVICE, "the service"), (CONTROLLER, "the controller")):
        _reaching.refused("reach-by", f"{_kind} by {_who}", _user, create(_thing))
    _reaching.refused("reach-by", f"{_kind} by server-side apply", INSIDER, apply(_thing))
    _reaching.passes("reach-by", f"{_kind} by a deployer", DEPLOYER, create(_thing))
_reaching.passes(
    "reach-by", "what EKS makes of a policy", NODE_AGENT, create(_reach("networking.k8s.aws", "PolicyEndpoint", True))
)
_reaching.refused(
    "reach-by", "what EKS made of a policy, changed", INSIDER, merge(_endpoint, {"spec": {"anything": []}})
)
_reaching.refused("reach-by", "what EKS made of a policy, taken away", INSIDER, delete(_endpoint))
_reaching.passes("reach-by", "a label", INSIDER, merge(_endpoint, {"metadata": {"labels": {"x": "y"}}}))
_reaching.passes("reach-by", "what EKS made, taken away with its policy", COLLECTOR, delete(_endpoint))
