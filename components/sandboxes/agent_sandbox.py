"""The agent-sandbox controller: its CRDs, RBAC and Deployment, on Fargate by default.

CRDs and roles come from the release unchanged, by URL or from a folder with the same files. The Deployment is defined
here, with its own flags, resource limits and security context. Creates, in this order: CRDs and namespace, RBAC and
configuration, the controller. Custom resources of its kinds must depend on this component.
"""

from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs
from pulumi_kubernetes.policy import v1 as policy
from pulumi_kubernetes.yaml import v2 as manifests

from agentenv.components._lib.arguments import ArgumentReader
from agentenv.components._lib.namespace_network_policy import (
    API,
    DNS,
    Ports,
    create_network_policy,
    network_policy_spec,
)
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import ChildOptions, child_options
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.sandboxes.controller import (
    CONFIGURATION,
    DOMAINS_KEY,
    HEALTH,
    METRICS,
    NAME,
    NAMESPACE,
    ControllerConfig,
    ControllerFlags,
    command_line_flags,
    deployment,
    joined_domains,
    read_label_domains,
)
from agentenv.components.sandboxes.rbac import bind_controller_roles, create_user_roles
from agentenv.core.pinned_versions import releases

RELEASE = "agent-sandbox"


class SandboxControllerLayout(TypedDict):
    """The source and configuration of the controller."""

    manifests: NotRequired[str]
    """The URL or folder of the release's manifests. Default: the pinned release."""

    image: NotRequired[str]
    """The controller's image. Default: that of the pinned release."""

    replicas: NotRequired[int]
    """The number of controller replicas, of which one is the leader. Default: 2."""

    cpu: NotRequired[str]
    """The CPU of each replica. Default: `250m`."""

    memory: NotRequired[str]
    """The memory of each replica. Default: `768Mi`, which with Fargate's overhead is just within the billed 1 GiB."""

    flags: NotRequired[ControllerFlags]
    """The flags of the controller."""

    label_domains: NotRequired[list[str]]
    """Domains of labels that a claim may set, besides `sandbox.users.io`."""


class AgentSandboxArgs(TypedDict):
    """The arguments of the controller."""

    ownership: Ownership
    """The owner, for tags and names."""

    layout: NotRequired[SandboxControllerLayout]
    """Its source and configuration. Default: as released."""


class AgentSandbox(pulumi.ComponentResource):
    """The controller with its CRDs, RBAC, configuration and disruption budget."""

    namespace: pulumi.Output[str]
    """Its namespace."""

    version: pulumi.Output[str]
    """The release of its CRDs and roles."""

    def __init__(self, name: str, args: AgentSandboxArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create it; a wrong plain argument raises before anything is created."""
        reader = ArgumentReader.of("agent_sandbox", args, AgentSandboxArgs)
        labels = Labels.of(reader, "agent-sandbox", name)
        release = releases().manifests[RELEASE]
        layout = _part(reader, "layout", SandboxControllerLayout)
        source = layout.text("manifests", default=release.address).rstrip("/")
        config = ControllerConfig(
            image=layout.text("image", default=releases().images[NAME]),
            replicas=layout.whole("replicas", 1, 5, default=2),
            cpu=layout.text("cpu", default="250m"),
            memory=layout.text("memory", default="768Mi"),
            flags=command_line_flags(_part(layout, "flags", ControllerFlags)),
            domains=read_label_domains(layout, "label_domains"),
        )

        super().__init__("agent-environment:index:AgentSandbox", name, {}, opts)
        self._name, self._labels = name, labels
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
            config, namespace.metadata.name, [definitions, roles, *bind_controller_roles(name, self._child)]
        )

        self.namespace = namespace.metadata.name
        self.version = pulumi.Output.from_input(release.version)
        self.register_outputs({output: getattr(self, output) for output in AgentSandbox.__annotations__})

    def _create_controller(
        self, config: ControllerConfig, namespace: pulumi.Output[str], after: list[pulumi.Resource]
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
            data={DOMAINS_KEY: joined_domains(config.domains)},
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
            spec=deployment(config),  # pyright: ignore[reportArgumentType] - plain data of its shape
            opts=self._child(
                pulumi.ResourceOptions(
                    depends_on=[account, configuration, network_policy, *after],
                    # Fargate takes about a minute to start a pod, and starts them one by one.
                    custom_timeouts=pulumi.CustomTimeouts(create="15m", update="15m"),
                )
            ),
        )


def _part(reader: ArgumentReader, key: str, shape: type[Any]) -> ArgumentReader:
    return reader.part(key, shape) if reader.has(key) else ArgumentReader(f"{reader.path}.{key}", {})
