"""The plan of a class: its settings, and the facts of the environment that its objects depend on.

A plan needs no deployment. Values that only a deployment knows, such as file system ids, are in
`objects.DeploymentValues`, and are never part of a name or of a release's hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.from_settings import cluster_facts, ingress_of
from agentenv.core.classes.pods.network_gate import gate_container, gate_image
from agentenv.core.environment import EnvironmentFacts, environment_facts
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.nodes.node_pools import architecture_of
from agentenv.core.nodes.tiers import Wall, wall_of
from agentenv.core.pinned_versions import releases
from agentenv.core.values.posix_ids import class_id, seat_id

if TYPE_CHECKING:
    from agentenv.config.sections.classes import Daemon, SandboxClass
    from agentenv.config.sections.workspaces import Seat
    from agentenv.config.settings import Settings
    from agentenv.core.capabilities.cluster_facts import ClusterFacts
    from agentenv.core.capabilities.sets.reach import Reach

STABLE = "stable"


@dataclass(frozen=True)
class PlannedSeat:
    """A declared workspace of the class: it has its own uid and counts towards the class's quota."""

    name: str
    uid: int
    size: str


@dataclass(frozen=True)
class ClassPlan:
    """One class, with all inputs of its objects."""

    settings: SandboxClass
    environment: EnvironmentFacts
    version: str  # of Kubernetes
    shards: int  # number of file systems with homes
    architecture: str  # of its nodes, or `any`
    cluster: ClusterFacts
    ingress: Reach
    gate_image: str
    daemon: Daemon  # what callers reach in its sandboxes
    workspaced_image: str | None
    kubectl_image: str
    retain_deleted_for: timedelta
    session_retention: timedelta
    home_sources: tuple[str, ...] = ()  # classes from which a workspace may change to this one and bring its home
    seats: tuple[PlannedSeat, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the class."""
        return self.settings.name

    @property
    def uid(self) -> int:
        """Return the uid and gid of its sandboxes, which its access points enforce."""
        return class_id(self.name)

    @property
    def on_fargate(self) -> bool:
        """Return whether its sandboxes run on Fargate."""
        return self.settings.compute == "fargate"

    @property
    def wall(self) -> Wall | None:
        """Return the isolation between a sandbox and its node; None on Fargate, where AWS provides it."""
        return None if self.on_fargate else wall_of(self.settings.tier, self.settings.kernel)

    @property
    def slots(self) -> bool:
        """Return whether every sandbox is created with its own access point."""
        return self.settings.storage.kind in {"slot", "shared"} and not self.on_fargate

    @cached_property
    def gate(self) -> dict[str, Any] | None:
        """Return the init container that waits until the network policy is enforced; None without a probe address."""
        return gate_container(self.settings, self.cluster, self.gate_image)

    @property
    def init_images(self) -> tuple[str, ...]:
        """The images of the init containers of its sandboxes and seats, beside its own."""
        shell = (self.gate_image,) if self.gate or self.slots or self.seats else ()
        workspaced = self.workspaced_image if self.daemon == "workspaced" else None
        return shell if workspaced is None else (*shell, workspaced)

    @property
    def images(self) -> tuple[tuple[str, str], ...]:
        """Return each channel of the class with its image; the class's own image is that of the stable channel."""
        return (
            (STABLE, self.settings.image),
            *((release.channel, release.image) for release in self.settings.releases),
        )


def plans(settings: Settings, cluster: ClusterFacts | None = None) -> tuple[ClassPlan, ...]:
    """Return the plans of all classes of an environment, in the order of the settings.

    `cluster` has the facts of the cluster if they are more than the settings say, as for an existing network or
    cluster.
    """
    # Grants do not exclude the API server's public addresses: it only accepts its configured ranges, and the addresses
    # of the NAT gateways are not among them.
    known = cluster or cluster_facts(settings, api=())
    mirrors, environment = Mirrors(settings.network.mirrors.registry), environment_facts(settings)
    return tuple(
        ClassPlan(
            settings=sandbox_class,
            environment=environment,
            version=settings.cluster.version,
            shards=settings.storage.file_systems,
            architecture=architecture_of(sandbox_class, settings.capacity),
            cluster=known,
            ingress=ingress_of(sandbox_class, settings),
            gate_image=gate_image(mirrors),
            daemon=settings.daemon_of(sandbox_class),
            workspaced_image=settings.service.workspaced.image if settings.service.workspaced else None,
            kubectl_image=mirrors.image(releases().images["kubectl"]),
            retain_deleted_for=settings.storage.retain_deleted_for,
            session_retention=settings.service.session_retention,
            home_sources=tuple(
                source.name for source in settings.sandbox_classes if _shares_homes(source, sandbox_class)
            ),
            seats=tuple(
                _planned_seat(seat, sandbox_class) for seat in settings.workspaces if seat.class_ == sandbox_class.name
            ),
        )
        for sandbox_class in settings.sandbox_classes
    )


def _shares_homes(source: SandboxClass, sandbox_class: SandboxClass) -> bool:
    """Return whether homes of one class can be mounted in another: both are on file systems of the environment."""
    kinds = {sandbox_class.storage.kind, source.storage.kind}
    return (
        source.name != sandbox_class.name
        and kinds <= {"slot", "shared"}
        and "fargate" not in {sandbox_class.compute, source.compute}
    )


def _planned_seat(seat: Seat, sandbox_class: SandboxClass) -> PlannedSeat:
    return PlannedSeat(seat.name, seat_id(seat.name), str(seat.size or sandbox_class.storage.size))
