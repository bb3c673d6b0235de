"""The namespace in which pools are made larger and smaller by the clock."""

import pulumi

from agentenv.components._lib.kubernetes_objects import written
from agentenv.components._lib.namespace_network_policy import API, DNS, let_through, work
from agentenv.components._lib.options import Child
from agentenv.core.classes.pools.schedules import schedules_namespace


def schedules_place(base: str, version: str, child: Child, more: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """The namespace, and a way from it to the API server alone; what `more` says holds for both."""

    def with_more(own: pulumi.ResourceOptions | None = None) -> pulumi.ResourceOptions:
        return child(pulumi.ResourceOptions.merge(more, own))

    space = written(f"{base}-schedules", schedules_namespace(version), with_more)
    return [space, let_through(f"{base}-schedules", space.metadata.name, work((), (*API, *DNS)), with_more)]
