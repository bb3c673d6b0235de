"""The Kubernetes side of a stage: the tools that it takes, its control plane, and telling the cloud of it."""

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
from agentenv.rehearsal.scenario import cluster_census as leftovers
from agentenv.rehearsal.stage import credentials as caller
from agentenv.rehearsal.stage.engine_environment import REGION, located
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
# Beyond it a heap that may grow is collected as often as it takes.
MOST_HEAP = "3GiB"


@dataclass(frozen=True)
class Serving:
    """Which cluster a control plane is raised for: where it is going to be made, by whom, and for whom else."""

    region: str = REGION
    deployer: str = "arn:aws:iam::123456789012:role/deployer"
    others: tuple[str, ...] = ()
    existing: tuple[str, ...] = ()  # ARNs of what the stack uses and does not create
    # How much a heap of its programs grows, in per cent, before it is collected; as little as they can live with, else.
    heap: int | None = None

    @classmethod
    def stack(cls, settings: Settings) -> Serving:
        """The cluster of a stack; who may deploy to it is said there, or whoever comes may."""
        said = settings.cluster
        may_deploy = (*said.deployers, *said.admins)
        people = (*may_deploy, *said.operators, *said.readers)
        return cls(settings.region, (*may_deploy, cls.deployer)[0], people, existing_arns(settings))

    def around(self, cloud: str) -> dict[str, str]:
        """What is said around it: the deployer's keys, as variables, and everybody is made who has to be there."""
        if self.existing:
            _post(f"{cloud}/_cloud/existing", self.existing)
        heap = {} if self.heap is None else {"GOGC": str(self.heap), "GOMEMLIMIT": MOST_HEAP}
        return {**located(self.region), **caller.keys_of(self.deployer, self.others, cloud, self.region), **heap}


@dataclass(frozen=True)
class ClusterSide:
    """A control plane that every cluster of the simulated account is served by."""

    plane: ControlPlane
    before: leftovers.Census = field(repr=False)

    def left(self) -> list[str]:
        """What exists in it that did not exist when it came up."""
        return leftovers.left(self.plane.client, self.before)


@contextmanager
def cluster_side(toolbox: Toolbox, folder: Path, around: Mapping[str, str], cloud: str) -> Iterator[ClusterSide]:
    """Raise it in `folder`, and end it; `around` is what the engine sees, the run's mark included."""
    with control_plane(toolbox, folder, around) as plane:
        _announce(plane, cloud)
        yield ClusterSide(plane, leftovers.census(plane.client))


def _announce(plane: ControlPlane, cloud: str) -> None:
    """From now on DescribeCluster names this plane's address, authority and issuer."""
    told = {
        "endpoint": plane.server,
        "certificate_authority": base64.b64encode(plane.ca_pem.encode()).decode(),
        "issuer": plane.issuer,
    }
    _post(f"{cloud}/_cloud/eks", told)


def existing_arns(settings: Settings) -> tuple[str, ...]:
    """Return the ARNs of the policies, the key and the anomaly monitor that a stack uses and does not create."""
    policies = [settings.cluster.permissions_boundary]
    policies += [arn for one in settings.sandbox_classes for arn in one.identity.policies]
    # Policies of AWS itself exist in every account.
    own = [arn for arn in policies if arn is not None and ":iam::aws:" not in arn]
    named = [*own, settings.storage.kms_key, settings.cost.anomaly_monitor]
    return tuple(dict.fromkeys(arn for arn in named if arn is not None))


def _post(address: str, body: object) -> None:
    request = urllib.request.Request(address, data=json.dumps(body).encode(), method="POST")  # noqa: S310 - our own loopback server
    with DIRECTLY.open(request, timeout=_ANSWER_SECONDS):
        pass
