"""The Kubernetes side of a stage: its tools, its control plane, and the registration with the simulated cloud."""

from __future__ import annotations

import base64
import dataclasses
import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from agentenv.config import Settings
from agentenv.core.nodes.node_pools import EC2_ARCHITECTURES, processor
from agentenv.core.plan import plan
from agentenv.core.service.image_version import OLDEST_IMAGE, ecr_image, format_version
from agentenv.rehearsal.controlplane.plane import PROGRAMS, ControlPlane, control_plane
from agentenv.rehearsal.controlplane.ports import DIRECTLY
from agentenv.rehearsal.scenario import cluster_census
from agentenv.rehearsal.stage import credentials
from agentenv.rehearsal.stage.engine_environment import REGION, region_variables
from agentenv.rehearsal.tools.toolbox import Toolbox

TOOLS = (
    *PROGRAMS,
    "helm",
    "karpenter-chart",
    "karpenter-crd-chart",
    "prometheus-chart",
    "opencost-chart",
    "grafana-chart",
    "agent-sandbox-chart",
    "agent-sandbox-manifests",
)
_ANSWER_SECONDS = 30
# GOMEMLIMIT where `heap` is set.
MOST_HEAP = "3GiB"


@dataclass(frozen=True)
class ExistingResource:
    """A resource that exists before the program runs, and the names that it is for, if it has any."""

    arn: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterOptions:
    """The cluster that a control plane serves: its region, its deployer and the other principals."""

    region: str = REGION
    deployer: str = "arn:aws:iam::123456789012:role/deployer"
    others: tuple[str, ...] = ()
    existing: tuple[ExistingResource, ...] = ()  # that the stack uses and does not create
    deployer_address: str = ""  # from which `pulumi up` reaches the API server; empty: from everywhere
    sandboxes: bool = False  # whether pods that workspaced starts run; they cost processor time and memory
    home_latency: float = 0.0  # milliseconds that each operation on the home of such a pod takes more
    heap: int | None = None  # GOGC of its programs

    @classmethod
    def for_stack(cls, settings: Settings) -> ClusterOptions:
        """Return the options for a stack's cluster; the first deployer or admin of its settings deploys."""
        cluster = settings.cluster
        may_deploy = (*cluster.deployers, *cluster.admins)
        principals = (*may_deploy, *cluster.operators, *cluster.readers)
        deployer = (*may_deploy, cls.deployer)[0]
        existing = existing_resources(settings, account=deployer.split(":")[4])
        address = deployer_address(settings)
        return cls(settings.region, deployer, principals, existing, deployer_address=address, sandboxes=True)

    def environment(self, cloud: str) -> dict[str, str]:
        """Create the principals and existing resources; return the deployer's credentials as variables."""
        if self.existing:
            _post(f"{cloud}/_cloud/existing", [dataclasses.asdict(each) for each in self.existing])
        heap = {} if self.heap is None else {"GOGC": str(self.heap), "GOMEMLIMIT": MOST_HEAP}
        return {
            **region_variables(self.region),
            **credentials.create_principals(self.deployer, self.others, cloud, self.region),
            **heap,
        }


@dataclass(frozen=True)
class RehearsalCluster:
    """A control plane that serves every cluster of the simulated account."""

    plane: ControlPlane
    baseline: cluster_census.Census = field(repr=False)

    def leftovers(self) -> list[str]:
        """Return what exists in the cluster now and did not when it came up."""
        return cluster_census.leftovers(self.plane.client, self.baseline)


@contextmanager
def rehearsal_cluster(
    toolbox: Toolbox, folder: Path, environment: Mapping[str, str], cloud: str, options: ClusterOptions
) -> Iterator[RehearsalCluster]:
    """Run the control plane in `folder`; `environment` is what the engine sees, the run's mark included."""
    sandboxes, latency = options.sandboxes, options.home_latency
    with control_plane(toolbox, folder, environment, sandboxes=sandboxes, home_latency=latency) as plane:
        _register(plane, cloud, options.deployer_address)
        yield RehearsalCluster(plane, cluster_census.census(plane.client))


def _register(plane: ControlPlane, cloud: str, deployer_address: str) -> None:
    """Register the plane, so that DescribeCluster returns its address, authority and issuer."""
    registration = {
        "endpoint": plane.server,
        "certificate_authority": base64.b64encode(plane.ca_pem.encode()).decode(),
        "issuer": plane.issuer,
        "deployer_address": deployer_address,
    }
    _post(f"{cloud}/_cloud/eks", registration)


def deployer_address(settings: Settings) -> str:
    """Return an address in the first range that a new cluster is meant to be reached from."""
    if settings.cluster.existing is not None:
        return ""
    ranges = (*settings.cluster.public_access_cidrs, *settings.private_access)
    return str(next(ranges[0].hosts())) if ranges else ""


def existing_resources(settings: Settings, account: str) -> tuple[ExistingResource, ...]:
    """Return the policies, keys, certificates and other resources that a stack uses and does not create."""
    policies = [settings.cluster.permissions_boundary]
    policies += [arn for sandbox_class in settings.sandbox_classes for arn in sandbox_class.identity.policies]
    # Policies of AWS itself exist in every account.
    customer_managed = [arn for arn in policies if arn is not None and ":iam::aws:" not in arn]
    service = settings.service
    arns = [*customer_managed, settings.storage.kms_key, settings.cost.anomaly_monitor, *service.own_secrets]
    ec2 = f"arn:aws:ec2:{settings.region}:{account}"
    if transit_gateway := settings.network.transit_gateway:
        arns.append(f"{ec2}:transit-gateway/{transit_gateway}")
    # One for each architecture, as preflight demands.
    processors = sorted({EC2_ARCHITECTURES[processor(family)] for family in settings.capacity.families})
    named = [
        ExistingResource(f"{ec2}:image/{image}", (architecture,))
        for image, architecture in zip(settings.capacity.nitro_images, cycle(processors), strict=False)
    ]
    if (gateway := plan(settings).gateway) is not None:
        named.append(ExistingResource(gateway.certificate, gateway.hosts))
        zones = {zone: host.removeprefix("*.") for host, zone in gateway.records}
        named += [
            ExistingResource(f"arn:aws:route53:::hostedzone/{zone}", (name, account)) for zone, name in zones.items()
        ]
    named += _container_images(settings)
    return (*(ExistingResource(arn) for arn in dict.fromkeys(arn for arn in arns if arn is not None)), *named)


def _container_images(settings: Settings) -> list[ExistingResource]:
    """Return the images in ECR; that of the service has the oldest version that this package deploys."""
    service, tags = settings.service, dict[str, tuple[str, ...]]()
    for sandbox_class in settings.sandbox_classes:
        tags[sandbox_class.image] = ()
    if service.workspaced is not None:
        tags[service.workspaced.image] = ()
    if service.image is not None:
        tags[service.image] = (format_version(OLDEST_IMAGE),)
    return [
        ExistingResource(
            f"arn:aws:ecr:{found['region']}:{found['account']}:repository/{found['repository']}@{found['digest']}",
            names,
        )
        for image, names in tags.items()
        if (found := ecr_image(image)) is not None
    ]


def _post(address: str, body: object) -> None:
    request = urllib.request.Request(address, data=json.dumps(body).encode(), method="POST")  # noqa: S310 - our own loopback server
    with DIRECTLY.open(request, timeout=_ANSWER_SECONDS):
        pass
