"""Envoy in the namespace `gateway`: its configuration, Deployment, disruption budget and network policy.

It is created after the service, which authorizes every request for a workspace and registers Envoy's pods as targets of
the load balancer.
"""

import pulumi

from agentenv.components._lib.kubernetes_objects import create_object
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import child_options, child_options_without_dependencies, component_outputs
from agentenv.core.gateway import documents
from agentenv.core.gateway.documents import NAMESPACE
from agentenv.core.plan import GatewayPlan


class Gateway(pulumi.ComponentResource):
    """The pods of Envoy, with everything that they need."""

    namespace: pulumi.Output[str]
    """Its namespace, known once it is created."""

    def __init__(
        self,
        name: str,
        plan: GatewayPlan,
        *,
        place: pulumi.Input[str] = NAMESPACE,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Create it; `place` is the name of its namespace, as an output that depends on everything that it needs."""
        super().__init__("agent-environment:index:Gateway", name, {}, opts)
        outer, child = child_options(self, opts), child_options_without_dependencies(self)
        namespace = create_restricted_namespace(f"{name}-namespace", place, outer)
        settings = plan.deployment
        before: list[pulumi.Resource] = []
        for suffix, document in (
            # Without its policy a pod has no traffic, and never becomes ready.
            ("passage", documents.network_policy(settings.envoy.service_port, plan.ranges)),
            ("account", documents.service_account()),
            ("configuration", documents.config_map(settings)),
            ("targets", documents.target_role()),
            ("targets", documents.target_role_binding()),
            ("budget", documents.disruption_budget()),
        ):
            after = pulumi.ResourceOptions(depends_on=[namespace])
            before.append(create_object(f"{name}-{suffix}", document, child, after))
        waits = pulumi.ResourceOptions(
            depends_on=before,
            # Karpenter may have to launch a node first, and the balancer checks a target's health for a minute.
            custom_timeouts=pulumi.CustomTimeouts(create="20m", update="20m"),
        )
        create_object(name, documents.deployment(settings), child, waits)
        self.namespace = namespace.metadata.name
        self.register_outputs(component_outputs(self))
