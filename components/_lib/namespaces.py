"""Namespaces of the platform, with the strictest pod security that Kubernetes has."""

import pulumi
from pulumi_kubernetes.core import v1 as core

from agentenv.components._lib.options import Child

RESTRICTED = {
    f"pod-security.kubernetes.io/{mode}{what}": value
    for mode in ("enforce", "audit", "warn")
    for what, value in (("", "restricted"), ("-version", "latest"))
}


def restricted(resource: str, name: pulumi.Input[str], child: Child, **labels: str) -> core.Namespace:
    """A namespace in which no pod may have more than the restricted standard allows."""
    return core.Namespace(
        resource,
        metadata={"name": name, "labels": {**RESTRICTED, **labels}},
        opts=child(
            # A namespace's deletion ends with everything in it, which may take its time to go.
            pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(delete="15m"))
        ),
    )
