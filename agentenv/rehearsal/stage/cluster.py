"""The Kubernetes side of a stage: its tools, its control plane, and the registration with the simulated cloud."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agentenv.config import Settings
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
class ClusterOptions:
    """The cluster that a control plane serves: its region, its deployer and the other principals."""

    region: str = REGION
    deployer: str = "arn:aws:iam::123456789012:role/deployer"
    others: tuple[str, ...] = ()
    existing: tuple[str, ...] = ()  # ARNs of resources that the stack uses and does not create
    sandboxes: bool = False  # whether pods that workspaced starts run; they cost processor time and memory
    # GOGC of its programs; by default the low value of `programs.FRUGAL`.
    heap: int | None = None

    @classmethod
    def for_stack(cls, settings: Settings) -> ClusterOptions:
        """Return the options for a stack's cluster; the first deployer or admin of its settings deploys."""
        cluster = settings.cluster
        may_deploy = (*cluster.deployers, *cluster.admins)
        principals = (*may_deploy, *cluster.operators, *cluster.readers)
        deployer = (*may_deploy, cls.deployer)[0]
        return cls(settings.region, deployer, principals, existing_arns(settings), sandboxes=True)

    def environment(self, cloud: str) -> dict[str, str]:
        """Create the principals and existing resources; return the deployer's credentials as variables."""
        if self.existing:
            _post(f"{cloud}/_cloud/existing", self.existing)
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
    toolbox: Toolbox, folder: Path, environment: Mapping[str, str], cloud: str, *, sandboxes: bool
) -> Iterator[RehearsalCluster]:
    """Run the control plane in `folder`; `environment` is what the engine sees, the run's mark included."""
    with control_plane(toolbox, folder, environment, sandboxes=sandboxes) as plane:
        _register(plane, cloud)
        yield RehearsalCluster(plane, cluster_census.census(plane.client))


def _register(plane: ControlPlane, cloud: str) -> None:
    """Register the plane, so that DescribeCluster returns its address, authority and issuer."""
    registration = {
        "endpoint": plane.server,
        "certificate_authority": base64.b64encode(plane.ca_pem.encode()).decode(),
        "issuer": plane.issuer,
    }
    _post(f"{cloud}/_cloud/eks", registration)


def existing_arns(settings: Settings) -> tuple[str, ...]:
    """Return the ARNs of the policies, the key and the anomaly monitor that a stack uses and does not create."""
    policies = [settings.cluster.permissions_boundary]
    policies += [arn for sandbox_class in settings.sandbox_classes for arn in sandbox_class.identity.policies]
    # Policies of AWS itself exist in every account.
    customer_managed = [arn for arn in policies if arn is not None and ":iam::aws:" not in arn]
    arns = [*customer_managed, settings.storage.kms_key, settings.cost.anomaly_monitor]
    return tuple(dict.fromkeys(arn for arn in arns if arn is not None))


def _post(address: str, body: object) -> None:
    request = urllib.request.Request(address, data=json.dumps(body).encode(), method="POST")  # noqa: S310 - our own loopback server
    with DIRECTLY.open(request, timeout=_ANSWER_SECONDS):
        pass
