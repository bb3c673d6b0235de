"""The network of a class: nothing in its namespace opens a way in or out beside its one policy."""

from __future__ import annotations

from model.guardrails.hands import asked_by
from model.guardrails.row import Policy, Rule, Watch, every, unless


def policies() -> tuple[Policy, ...]:
    """Services, and ways in from outside."""
    return (
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
                        every(
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
                    unless("oldObject != null && object.spec == oldObject.spec", asked_by()),
                    "ways in from outside are declared by deployers",
                ),
            ),
        ),
    )
