"""Namespaces of the platform, held to the `restricted` pod security standard."""

import pulumi
from pulumi_kubernetes.core import v1 as core

from agentenv.components._lib.options import ChildOptions

RESTRICTED = {
    f"pod-security.kubernetes.io/{mode}{suffix}": value
    for mode in ("enforce", "audit", "warn")
    for suffix, value in (("", "restricted"), ("-version", "latest"))
}


def create_restricted_namespace(
    resource_name: str, name: pulumi.Input[str], child: ChildOptions, **labels: str
) -> core.Namespace:
    """Create a namespace that admits only pods of the `restricted` standard."""
    return core.Namespace(
        resource_name,
        metadata={"name": name, "labels": {**RESTRICTED, **labels}},
        opts=child(
            # A namespace is deleted only when everything in it is, which can take minutes.
            pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(delete="15m"))
        ),
    )
