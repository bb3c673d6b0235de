"""The network of a class: nothing in its namespace opens a way in or out beside its one policy."""

from __future__ import annotations

from agentenv.core.guardrails.guardrail import Operation, Policy, Rule, Watch, all_of, unless
from agentenv.core.guardrails.principals import CLOUD, Principals, requested_by

_ALL: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Services, ways in from outside, and reach beside the class's policy."""
    return (
        _reach(principals),
        Policy(
            name="services",
            about="Services, when they are made and when their specification changes.",
            watches=(Watch("", ("services",)),),
            rules=(
                Rule(
                    "service-type",
                    "Such a Service opens a sandbox to the internet or on every node, or gives its name to somewhere"
                    " else.",
                    unless(
                        "oldObject != null && object.spec == oldObject.spec",
                        all_of(
                            "object.spec.?type.orValue('ClusterIP') == 'ClusterIP'",
                            "object.spec.?externalIPs.orValue([]).size() == 0",
                            "!has(object.spec.externalName) || object.spec.externalName == ''",
                        ),
                    ),
                    "Services are of type ClusterIP, without external addresses or names",
                ),
            ),
        ),
        Policy(
            name="routes",
            about="Ingresses and routes of gateways.",
            watches=(
                Watch("networking.k8s.io", ("ingresses",)),
                Watch("gateway.networking.k8s.io", ("*",)),
            ),
            rules=(
                Rule(
                    "route-by",
                    "A route brings the internet to a sandbox past the workspace service, which asks who is there.",
                    unless("oldObject != null && object.spec == oldObject.spec", requested_by()),
                    "ways in from outside are declared by deployers",
                ),
            ),
        ),
    )


def _reach(principals: Principals) -> Policy:
    # What has no namespace is about all of them, and is looked at as well.
    deleting = "namespaceObject != null && has(namespaceObject.metadata.deletionTimestamp)"
    return Policy(
        name="reach",
        about="Kinds beside NetworkPolicy by which EKS and others say what pods may reach, and what EKS makes of all of"
        " them for its nodes; also those that have no namespace.",
        watches=(Watch("networking.k8s.aws", ("*",), _ALL), Watch("policy.networking.k8s.io", ("*",), _ALL)),
        rules=(
            Rule(
                "reach-by",
                "Policies only ever add, or go before all others: one of another kind is more reach beside the class's"
                " own, and what nodes apply is read from none of them but from what EKS makes of them.",
                unless(
                    "object != null && oldObject != null && object.?spec == oldObject.?spec",
                    unless(
                        f"request.operation == 'DELETE' && {deleting}",
                        requested_by(*principals.collectors, prefixes=[CLOUD]),
                    ),
                ),
                "what pods may reach is declared by deployers, and brought to nodes by EKS",
            ),
        ),
    )
