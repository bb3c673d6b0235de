"""The namespace of the CronJobs that scale warm pools by schedule."""

import pulumi

from agentenv.components._lib.kubernetes_objects import create_object
from agentenv.components._lib.namespace_network_policy import API, DNS, create_network_policy, network_policy_spec
from agentenv.core.classes.pools.schedules import schedules_namespace


def create_schedules_namespace(base: str, version: str, options: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Create the namespace and a network policy that allows only the API server, both with these options."""

    def child(more: pulumi.ResourceOptions | None = None) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(options, more)

    namespace = create_object(f"{base}-schedules", schedules_namespace(version), child)
    return [
        namespace,
        create_network_policy(
            f"{base}-schedules", namespace.metadata.name, network_policy_spec((), (*API, *DNS)), child
        ),
    ]
