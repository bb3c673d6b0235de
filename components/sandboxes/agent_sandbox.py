"""The agent-sandbox controller: its definitions, its rights, and the controller itself, on Fargate unless told.

Definitions and roles are taken from the release as they are, by address or from a folder with the same files; what runs
is described here, so that its flags, limits and security are ours. In order: definitions and namespace, rights and
configuration, the controller. Whatever is of its kinds waits for this by `depends_on`, and goes before it.
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
    ControllerFlags,
    Running,
    command_line_flags,
    deployment,
    joined_domains,
    read_label_domains,
)
from agentenv.components.sandboxes.rbac import bind_controller_roles, create_user_roles
from agentenv.core.pinned_versions import releases

RELEASE = "agent-sandbox"


class SandboxControllerLayout(TypedDict):
    """Where the controller comes from, and how it runs."""

    manifests: NotRequired[str]
    """Where the release's files are: an address, or a folder; the pinned release unless told."""

    image: NotRequired[str]
    """The controller's image; that of the pinned release unless told."""

    replicas: NotRequired[int]
    """How many controllers there are, of which one works: 2 unless told."""

    cpu: NotRequired[str]
    """Cores of each: `250m` unless told."""

    memory: NotRequired[str]
    """Memory of each: `768Mi` unless told, which with Fargate's share is just the gigabyte that is paid for."""

    flags: NotRequired[ControllerFlags]
    """How it works."""

    label_domains: NotRequired[list[str]]
    """Domains of labels that a claim may set beside ours."""


class AgentSandboxArgs(TypedDict):
    """What the controller is made from."""

    ownership: Ownership
    """Whose it is."""

    layout: NotRequired[SandboxControllerLayout]
    """Where it comes from, and how it runs; as released unless told."""


class AgentSandbox(pulumi.ComponentResource):
    """The controller with its custom resource definitions, rights, configuration and disruption budget."""

    namespace: pulumi.Output[str]
    """Where it runs."""

    version: pulumi.Output[str]
    """The release that its definitions and roles are of."""

    def __init__(self, name: str, args: AgentSandboxArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make it; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("agent_sandbox", args, AgentSandboxArgs)
        labels = Labels.of(reader, "agent-sandbox", name)
        release = releases().manifests[RELEASE]
        layout = _part(reader, "layout", SandboxControllerLayout)
        source = layout.text("manifests", default=release.address).rstrip("/")
        running = Running(
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
        space = create_restricted_namespace(f"{name}-namespace", NAMESPACE, self._child)
        create_user_roles(name, self._child)
        self._run(running, space.metadata.name, [definitions, roles, *bind_controller_roles(name, self._child)])

        self.namespace = space.metadata.name
        self.version = pulumi.Output.from_input(release.version)
        self.register_outputs({output: getattr(self, output) for output in AgentSandbox.__annotations__})

    def _run(self, running: Running, space: pulumi.Output[str], after: list[pulumi.Resource]) -> None:
        name, marks = self._name, {"app": NAME}

        def named(what: str) -> ObjectMetaArgs:
            return ObjectMetaArgs(name=what, namespace=space, labels=marks)

        account = core.ServiceAccount(
            f"{name}-controller",
            metadata=named(NAME),
            opts=self._child(),
        )
        configuration = core.ConfigMap(
            f"{name}-configuration",
            metadata=named(CONFIGURATION),
            data={DOMAINS_KEY: joined_domains(running.domains)},
            opts=self._child(),
        )
        # On Fargate nothing enforces it; on the system's nodes it is what keeps others from it.
        passage = create_network_policy(
            f"{name}-controller", space, network_policy_spec((Ports(METRICS), Ports(HEALTH)), (*API, *DNS)), self._child
        )
        core.Service(
            f"{name}-controller",
            metadata=named(NAME),
            spec={"selector": marks, "ports": [{"name": "metrics", "port": METRICS, "target_port": "metrics"}]},
            opts=self._child(pulumi.ResourceOptions(depends_on=[account])),
        )
        policy.PodDisruptionBudget(
            f"{name}-controller",
            metadata=named(NAME),
            spec={"max_unavailable": 1, "selector": {"match_labels": marks}},
            opts=self._child(),
        )
        apps.Deployment(
            f"{name}-controller",
            metadata=named(NAME),
            spec=deployment(running),  # pyright: ignore[reportArgumentType] - plain data of its shape
            opts=self._child(
                pulumi.ResourceOptions(
                    depends_on=[account, configuration, passage, *after],
                    # Fargate takes a minute to bring a pod up, and brings them one by one.
                    custom_timeouts=pulumi.CustomTimeouts(create="15m", update="15m"),
                )
            ),
        )


def _part(reader: ArgumentReader, key: str, shape: type[Any]) -> ArgumentReader:
    return reader.part(key, shape) if reader.has(key) else ArgumentReader(f"{reader.path}.{key}", {})
