"""The agent-sandbox controller: its CRDs, RBAC and Deployment, on Fargate by default.

CRDs and roles come from the release unchanged, by URL or from a folder with the same files. The Deployment is defined
here, with its own flags, resource limits and security context. Creates, in this order: CRDs and namespace, RBAC and
configuration, the controller. Custom resources of its kinds must depend on this component.
"""

import pulumi
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs
from pulumi_kubernetes.policy import v1 as policy
from pulumi_kubernetes.yaml import v2 as manifests

from agentenv.components._lib.namespace_network_policy import (
    API,
    DNS,
    Ports,
    create_network_policy,
    network_policy_spec,
)
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components.sandboxes.controller import (
    CONFIGURATION,
    DOMAINS_KEY,
    HEALTH,
    METRICS,
    NAME,
    NAMESPACE,
    deployment,
    joined_domains,
)
from agentenv.components.sandboxes.rbac import bind_controller_roles, create_user_roles
from agentenv.core.pinned_versions import releases
from agentenv.core.plan import SandboxControllerPlan

RELEASE = "agent-sandbox"


class AgentSandbox(pulumi.ComponentResource):
    """The controller with its CRDs, RBAC, configuration and disruption budget."""

    namespace: pulumi.Output[str]
    """Its namespace."""

    version: pulumi.Output[str]
    """The release of its CRDs and roles."""

    def __init__(self, name: str, plan: SandboxControllerPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create it in a cluster."""
        release = releases().manifests[RELEASE]
        source = (plan.settings.manifests or release.address).rstrip("/")

        super().__init__("agent-environment:index:AgentSandbox", name, {}, opts)
        self._name = name
        self._child: ChildOptions = child_options(self, opts)

        definitions = manifests.ConfigGroup(
            f"{name}-definitions",
            files=[f"{source}/{file}" for file in release.definitions],
            opts=self._child(),
        )
        roles = manifests.ConfigGroup(
            f"{name}-roles", files=[f"{source}/{file}" for file in release.roles], opts=self._child()
        )
        namespace = create_restricted_namespace(f"{name}-namespace", NAMESPACE, self._child)
        create_user_roles(name, self._child)
        self._create_controller(
            plan, namespace.metadata.name, [definitions, roles, *bind_controller_roles(name, self._child)]
        )

        self.namespace = namespace.metadata.name
        self.version = pulumi.Output.from_input(release.version)
        self.register_outputs(component_outputs(self))

    def _create_controller(
        self, plan: SandboxControllerPlan, namespace: pulumi.Output[str], after: list[pulumi.Resource]
    ) -> None:
        name, match_labels = self._name, {"app": NAME}

        def named(object_name: str) -> ObjectMetaArgs:
            return ObjectMetaArgs(name=object_name, namespace=namespace, labels=match_labels)

        account = core.ServiceAccount(
            f"{name}-controller",
            metadata=named(NAME),
            opts=self._child(),
        )
        configuration = core.ConfigMap(
            f"{name}-configuration",
            metadata=named(CONFIGURATION),
            data={DOMAINS_KEY: joined_domains(plan.settings)},
            opts=self._child(),
        )
        # Fargate does not enforce network policies; on system nodes it keeps other pods from the controller.
        network_policy = create_network_policy(
            f"{name}-controller",
            namespace,
            network_policy_spec((Ports(METRICS), Ports(HEALTH)), (*API, *DNS)),
            self._child,
        )
        core.Service(
            f"{name}-controller",
            metadata=named(NAME),
            spec={"selector": match_labels, "ports": [{"name": "metrics", "port": METRICS, "target_port": "metrics"}]},
            opts=self._child(pulumi.ResourceOptions(depends_on=[account])),
        )
        policy.PodDisruptionBudget(
            f"{name}-controller",
            metadata=named(NAME),
            spec={"max_unavailable": 1, "selector": {"match_labels": match_labels}},
            opts=self._child(),
        )
        apps.Deployment(
            f"{name}-controller",
            metadata=named(NAME),
            spec=deployment(plan),  # pyright: ignore[reportArgumentType] - plain data of its shape
            opts=self._child(
                pulumi.ResourceOptions(
                    depends_on=[account, configuration, network_policy, *after],
                    # Fargate takes about a minute to start a pod, and starts them one by one.
                    custom_timeouts=pulumi.CustomTimeouts(create="15m", update="15m"),
                )
            ),
        )
