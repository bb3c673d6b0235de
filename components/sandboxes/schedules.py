"""The namespace in which pools are made larger and smaller by the clock."""

import pulumi

from agentenv.components._lib.kubernetes_objects import create_object
from agentenv.components._lib.namespace_network_policy import API, DNS, create_network_policy, network_policy_spec
from agentenv.components._lib.options import ChildOptions
from agentenv.core.classes.pools.schedules import schedules_namespace


def create_schedules_namespace(
    base: str, version: str, child: ChildOptions, more: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """The namespace, and a way from it to the API server alone; what `more` says holds for both."""

    def with_more(own: pulumi.ResourceOptions | None = None) -> pulumi.ResourceOptions:
        return child(pulumi.ResourceOptions.merge(more, own))

    space = create_object(f"{base}-schedules", schedules_namespace(version), with_more)
    return [
        space,
        create_network_policy(
            f"{base}-schedules", space.metadata.name, network_policy_spec((), (*API, *DNS)), with_more
        ),
    ]
