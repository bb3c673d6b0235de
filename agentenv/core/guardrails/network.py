"""Guardrails for the network of a class: no object in its namespace allows traffic beyond its NetworkPolicy."""

from __future__ import annotations

from agentenv.core.guardrails.guardrail import Operation, Policy, Rule, Watch, all_of, unless
from agentenv.core.guardrails.principals import CLOUD, Principals, requested_by

_ALL: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Return the policies for Services, Ingresses and routes, and for other kinds of network policies."""
    return (
        _reach(principals),
        Policy(
            name="services",
            about="Services, on creation and when their spec changes.",
            watches=(Watch("", ("services",)),),
            rules=(
                Rule(
                    "service-type",
                    "Other Services expose a sandbox to the internet or on every node, or resolve to an external name.",
                    unless(
                        "oldObject != null && object.spec == oldObject.spec",
                        all_of(
                            "object.spec.?type.orValue('ClusterIP') == 'ClusterIP'",
                            "object.spec.?externalIPs.orValue([]).size() == 0",
                            "!has(object.spec.externalName) || object.spec.externalName == ''",
                        ),
                    ),
                    "Services must be of type ClusterIP, without externalIPs or externalName",
                ),
            ),
        ),
        Policy(
            name="routes",
            about="Ingresses, and objects of the Gateway API.",
            watches=(
                Watch("networking.k8s.io", ("ingresses",)),
                Watch("gateway.networking.k8s.io", ("*",)),
            ),
            rules=(
                Rule(
                    "route-by",
                    "A route from the internet to a sandbox bypasses the workspace service, which authenticates"
                    " callers.",
                    unless("oldObject != null && object.spec == oldObject.spec", requested_by()),
                    "only deployers may create Ingresses and Gateway API objects",
                ),
            ),
        ),
    )


def _reach(principals: Principals) -> Policy:
    # Cluster-scoped objects apply to all namespaces, so they are matched too.
    deleting = "namespaceObject != null && has(namespaceObject.metadata.deletionTimestamp)"
    return Policy(
        name="reach",
        about="Other kinds of network policies of EKS and SIG Network, and the PolicyEndpoints that EKS derives for its"
        " nodes; cluster-scoped ones included.",
        watches=(Watch("networking.k8s.aws", ("*",), _ALL), Watch("policy.networking.k8s.io", ("*",), _ALL)),
        rules=(
            Rule(
                "reach-by",
                "Policies of other kinds add to the class's NetworkPolicy or override it, and nodes enforce the"
                " PolicyEndpoints, not the policies themselves.",
                unless(
                    "object != null && oldObject != null && object.?spec == oldObject.?spec",
                    unless(
                        f"request.operation == 'DELETE' && {deleting}",
                        requested_by(*principals.collectors, prefixes=[CLOUD]),
                    ),
                ),
                "only deployers may create network policies of these kinds, and only EKS PolicyEndpoints",
            ),
        ),
    )
