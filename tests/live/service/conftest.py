"""A class on the live control plane, from the documents that a stack makes of its settings, with slots on EFS."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentenv.config import read
from agentenv.core.classes.objects import ClassObjects, DeploymentValues, class_objects
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.guardrails.pods import priority_class
from agentenv.core.nodes.tiers import CAPACITY_LABEL, labels, taints, wall_of
from agentenv.rehearsal.controlplane.client import Client
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.fast.components.graph import REGION as STACKS_REGION
from tests.fast.components.graph import registered
from tests.fast.components.node_shapes import cluster_addons
from tests.fast.components.shapes import planned
from tests.live.conftest import CLUSTER, REGION, World
from tests.live.controlplane.installed import installed
from tests.live.service.blocking import Blocking

Object = dict[str, Any]

EXTENSIONS = "/apis/extensions.agents.x-k8s.io/v1beta1"
IMAGES = tuple(f"registry.example.com/sandbox@sha256:{number * 64}" for number in "01")
ADDONS = ("eks-pod-identity-agent", "aws-efs-csi-driver")


@dataclass
class Box:
    """A class of its own for one test, and what it is made from at the moment."""

    name: str
    client: Client
    cluster: Blocking
    system: str
    size: int = 2
    storage: str = "slot"
    most: int = 12
    more: Object = field(default_factory=dict)

    @property
    def space(self) -> str:
        return f"sandbox-{self.name}"

    def class_settings(self, image: str = IMAGES[0]) -> Object:
        """The class as a stack file has it."""
        class_settings: Object = {
            "name": self.name,
            "tier": "verified",
            "claimableBy": {"roles": ["operator"]},
            "image": image,
        }
        class_settings |= {"pool": {"size": self.size}, "maxSandboxes": self.most, "storage": {"kind": self.storage}}
        return {**class_settings, **self.more}

    def plan(self, image: str) -> ClassPlan:
        """The class with an image, as a stack file would have it."""
        config = {
            "aws:region": "us-east-1",
            "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
            "agent-environment:sandboxClasses": [self.class_settings(image)],
        }
        (planned,) = plans(read(config, "dev"))
        return planned

    def home(self, sandbox: str) -> Object:
        """The volume that a sandbox has as its home."""
        claim = self.get("persistentvolumeclaims", f"home-{sandbox}", "/api/v1")
        return self.client.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")

    def deploy(self, image: str) -> str:
        """Deploy the class with an image beside existing releases, as an update does; return its pool."""
        objects: ClassObjects = class_objects(self.plan(image), DeploymentValues([self.system], self.system))
        # The order is the component's: what the stack names is said before any of it is there.
        for document in objects.documents():
            self.client.apply(document)
        return objects.pools[0]["metadata"]["name"]

    def pool(self, name: str) -> Object | None:
        return self.client.find(f"{EXTENSIONS}/namespaces/{self.space}/sandboxwarmpools/{name}")

    def full(self, name: str) -> bool:
        """Return whether a pool says so, of what is asked of it now."""
        pool = self.pool(name) or {"metadata": {}}
        status = pool.get("status") or {}
        seen = status.get("observedGeneration") == pool["metadata"].get("generation")
        return seen and status.get("readyReplicas") == self.size

    def all(self, plural: str, group: str = EXTENSIONS) -> list[Object]:
        return self.client.get(f"{group}/namespaces/{self.space}/{plural}")["items"]

    def get(self, plural: str, name: str, group: str = EXTENSIONS) -> Object:
        return self.client.get(f"{group}/namespaces/{self.space}/{plural}/{name}")


@pytest.fixture(scope="module")
def ground(world: World, toolbox: Toolbox) -> Iterator[Client]:
    """The controller of sandboxes, the driver with its role, and a node for the tier."""
    admin = world.plane.client
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
    world.plane.add_nodes([shape])
    eks = world.aws("eks")
    for addon in reversed(ADDONS):
        with contextlib.suppress(eks.exceptions.ResourceNotFoundException):
            eks.delete_addon(clusterName=CLUSTER, addonName=addon)
    yield admin
    for addon in reversed(ADDONS):
        with contextlib.suppress(eks.exceptions.ResourceNotFoundException):
            eks.delete_addon(clusterName=CLUSTER, addonName=addon)
    admin.delete(f"/api/v1/nodes/{node}")


@pytest.fixture(scope="module")
def system(world: World, ground: Client) -> str:
    """A file system, and the driver with a role that may make access points on it."""
    created = world.aws("efs").create_file_system(CreationToken=f"box-{uuid.uuid4().hex[:6]}")
    arn = created["FileSystemArn"]
    stack = registered(lambda: cluster_addons(file_system_arns=[arn]))
    trust = stack.resource("Role", "efs-controller").inputs["assumeRolePolicy"].replace(STACKS_REGION, REGION)
    trust = trust.replace(planned().environment.cluster_name, CLUSTER)
    may = stack.resource("RolePolicy").inputs["policy"].replace(STACKS_REGION, REGION)
    iam, name = world.aws("iam"), f"efs-{uuid.uuid4().hex[:6]}"
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="efs", PolicyDocument=may)
    eks = world.aws("eks")
    eks.create_addon(clusterName=CLUSTER, addonName=ADDONS[0])
    identity = [{"serviceAccount": "efs-csi-controller-sa", "roleArn": role}]
    eks.create_addon(clusterName=CLUSTER, addonName=ADDONS[1], podIdentityAssociations=identity)
    return created["FileSystemId"]


@pytest.fixture
def box(world: World, ground: Client, system: str) -> Iterator[Box]:
    """A class that nobody else has. Its namespace goes by itself, which nobody waits for."""
    cluster = Blocking.from_kubeconfig(world.plane.kubeconfig())
    box_ = Box(f"box{uuid.uuid4().hex[:6]}", ground, cluster, system)
    yield box_
    ground.delete(f"/api/v1/namespaces/{box_.space}")
    cluster.close()
