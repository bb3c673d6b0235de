"""A sandbox class on the live control plane, from the documents of a stack, with homes on EFS."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from agentenv.config import read
from agentenv.core.classes.objects import ClassObjects, DeploymentValues, class_objects
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.guardrails.pods import priority_class
from agentenv.core.nodes.tiers import CAPACITY_LABEL, labels, taints, wall_of
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.fast.components.graph import REGION as STACKS_REGION
from tests.fast.components.graph import registered
from tests.fast.components.node_shapes import cluster_addons
from tests.fast.components.shapes import planned
from tests.fast.service.http.auth.issuer import FakeIssuer
from tests.live.conftest import CLUSTER, REGION, LiveCluster
from tests.live.controlplane.installed import installed
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.blocking import Blocking

if TYPE_CHECKING:
    from tests.live.service.lifecycle import Lifecycle

Object = dict[str, Any]

EXTENSIONS = "/apis/extensions.agents.x-k8s.io/v1beta1"
IMAGES = tuple(f"registry.example.com/sandbox@sha256:{number * 64}" for number in "01")
ADDONS = ("eks-pod-identity-agent", "aws-efs-csi-driver")


@dataclass
class LiveClass:
    """A sandbox class for one test, and its current settings."""

    name: str
    client: Client
    cluster: Blocking
    file_system: str
    size: int = 2
    storage: str = "slot"
    max_sandboxes: int = 12
    extra_settings: Object = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return f"sandbox-{self.name}"

    def class_settings(self, image: str = IMAGES[0]) -> Object:
        """Return the settings of the class, as in a stack file."""
        class_settings: Object = {
            "name": self.name,
            "tier": "verified",
            "claimableBy": {"roles": ["operator"]},
            "image": image,
        }
        class_settings |= {
            "pool": {"size": self.size},
            "maxSandboxes": self.max_sandboxes,
            "storage": {"kind": self.storage},
        }
        return {**class_settings, **self.extra_settings}

    def plan(self, image: str) -> ClassPlan:
        """Return the plan of the class with an image."""
        config = {
            "aws:region": "us-east-1",
            "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
            "agent-environment:sandboxClasses": [self.class_settings(image)],
        }
        (planned,) = plans(read(config, "dev"))
        return planned

    def home(self, sandbox: str) -> Object:
        """Return the volume with the home of a sandbox."""
        claim = self.get("persistentvolumeclaims", f"home-{sandbox}", "/api/v1")
        return self.client.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")

    def deploy(self, image: str) -> str:
        """Deploy the class with an image beside existing releases, as an update does; return its pool."""
        objects: ClassObjects = class_objects(self.plan(image), DeploymentValues([self.file_system], self.file_system))
        # In the order of the component
        for document in objects.documents():
            self.client.apply(document)
        return objects.pools[0]["metadata"]["name"]

    def deploy_until_full(self) -> str:
        """Deploy the class; return its pool once that is full."""
        pool = self.deploy(IMAGES[0])
        assert until(lambda: self.is_full(pool), TIMEOUT), self.pool(pool)
        return pool

    def pool(self, name: str) -> Object | None:
        return self.client.find(f"{EXTENSIONS}/namespaces/{self.namespace}/sandboxwarmpools/{name}")

    def is_full(self, name: str) -> bool:
        """Return whether a pool reports all its replicas as ready, for its current generation."""
        pool = self.pool(name) or {"metadata": {}}
        status = pool.get("status") or {}
        seen = status.get("observedGeneration") == pool["metadata"].get("generation")
        return seen and status.get("readyReplicas") == self.size

    def all(self, plural: str, group: str = EXTENSIONS) -> list[Object]:
        return self.client.get(f"{group}/namespaces/{self.namespace}/{plural}")["items"]

    def get(self, plural: str, name: str, group: str = EXTENSIONS) -> Object:
        return self.client.get(f"{group}/namespaces/{self.namespace}/{plural}/{name}")


@pytest.fixture(scope="module")
def cluster_client(live: LiveCluster, toolbox: Toolbox) -> Iterator[Client]:
    """Run the sandbox controller, and add a node for the tier; yield the administrator's client."""
    admin = live.plane.client
    installed(admin, toolbox)
    admin.apply(priority_class())
    wall = wall_of("verified")
    node = f"verified-{uuid.uuid4().hex[:6]}"
    marks = tuple(f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in taints(wall))
    shape = NodeShape(
        node,
        "us-east-1a",
        "m7g.xlarge",
        "16",
        "60Gi",
        labels={**labels(wall), CAPACITY_LABEL: "on-demand"},
        taints=marks,
    )
    live.plane.add_nodes([shape])
    eks = live.aws("eks")
    for addon in reversed(ADDONS):
        with contextlib.suppress(eks.exceptions.ResourceNotFoundException):
            eks.delete_addon(clusterName=CLUSTER, addonName=addon)
    yield admin
    for addon in reversed(ADDONS):
        with contextlib.suppress(eks.exceptions.ResourceNotFoundException):
            eks.delete_addon(clusterName=CLUSTER, addonName=addon)
    # With those that tests added: a later test may need a node that is full.
    chosen = ",".join(f"{label}={value}" for label, value in labels(wall).items())
    for row in admin.get("/api/v1/nodes", labelSelector=chosen)["items"]:
        admin.delete(f"/api/v1/nodes/{row['metadata']['name']}")


@pytest.fixture(scope="module")
def file_system(live: LiveCluster, cluster_client: Client) -> str:
    """Create a file system, and the EFS driver with a role that may create access points on it."""
    created = live.aws("efs").create_file_system(CreationToken=f"box-{uuid.uuid4().hex[:6]}")
    arn = created["FileSystemArn"]
    stack = registered(lambda: cluster_addons(file_system_arns=[arn]))
    trust = stack.resource("Role", "efs-controller").inputs["assumeRolePolicy"].replace(STACKS_REGION, REGION)
    trust = trust.replace(planned().environment.cluster_name, CLUSTER)
    may = stack.resource("RolePolicy").inputs["policy"].replace(STACKS_REGION, REGION)
    iam, name = live.aws("iam"), f"efs-{uuid.uuid4().hex[:6]}"
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="efs", PolicyDocument=may)
    eks = live.aws("eks")
    eks.create_addon(clusterName=CLUSTER, addonName=ADDONS[0])
    identity = [{"serviceAccount": "efs-csi-controller-sa", "roleArn": role}]
    eks.create_addon(clusterName=CLUSTER, addonName=ADDONS[1], podIdentityAssociations=identity)
    return created["FileSystemId"]


@pytest.fixture(scope="module")
def issuer() -> Iterator[FakeIssuer]:
    issuer_ = FakeIssuer()
    yield issuer_
    issuer_.close()


@contextlib.contextmanager
def own_class(live: LiveCluster, cluster_client: Client, file_system: str, **settings: Any) -> Generator[LiveClass]:
    """A class of this test's own; the deletion of its namespace is not awaited."""
    cluster = Blocking.from_kubeconfig(live.plane.kubeconfig())
    live_class = LiveClass(f"box{uuid.uuid4().hex[:6]}", cluster_client, cluster, file_system, **settings)
    try:
        yield live_class
    finally:
        cluster_client.delete(f"/api/v1/namespaces/{live_class.namespace}")
        cluster.close()


@pytest.fixture
def live_class(live: LiveCluster, cluster_client: Client, file_system: str) -> Iterator[LiveClass]:
    with own_class(live, cluster_client, file_system) as live_class:
        yield live_class


@pytest.fixture
def pool(live_class: LiveClass) -> str:
    return live_class.deploy_until_full()


@pytest.fixture
def lifecycle(live_class: LiveClass, live: LiveCluster) -> Iterator[Lifecycle]:
    """The workspaces of that class, which are deleted after the test."""
    from tests.live.service.lifecycle import Lifecycle

    lifecycle_ = Lifecycle(live_class, live)
    yield lifecycle_
    lifecycle_.delete_all()
