"""The objects that attempts act on: the class in the API server, its users, and valid sample objects."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from agentenv.config import Settings
from agentenv.core.classes.names import EXTENSIONS, SANDBOXES, USER_LABEL
from agentenv.core.classes.objects import ClassObjects
from agentenv.core.classes.plan import ClassPlan
from agentenv.core.classes.releases import releases_of
from agentenv.core.guardrails import EKS, Policy
from agentenv.core.service.home_metering import HomeFolder, ScanJob, job
from agentenv.core.workspaces import claims, swarms
from agentenv.core.workspaces.seats import SeatPlan
from agentenv.core.workspaces.swarms import Swarm
from agentenv.rehearsal.controlplane.client import Client, Credentials, has_condition, until
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT

Object = dict[str, Any]

# A class of an environment, and three whose namespaces have no pod security, so that nothing but the guardrails
# refuses: an equal one, one with shared volumes, and one on Fargate.
CLASS, LOOSE, SHARED, FARGATE_CLASS = "guarded", "loose", "swarming", "batch"
# RBAC allows these users everything but changes of the guardrails, so refusals come from the guardrails.
INSIDER = "insider"
SERVICE, PROVISIONER, CONTROLLER = EKS.service, EKS.provisioner, EKS.sandbox_controller
NAMESPACES = "system:serviceaccount:kube-system:namespace-controller"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
ACCOUNTS = "system:serviceaccount:kube-system:service-account-controller"
BINDER = "system:serviceaccount:kube-system:persistent-volume-binder"
# The controller that turns policies into node rules, and kinds of network access beside NetworkPolicy.
NODE_AGENT, NETWORK = "eks:network-policy-controller", "v1alpha1"
OTHER_REACH = (
    ("networking.k8s.aws", "ApplicationNetworkPolicy", True),
    ("networking.k8s.aws", "PolicyEndpoint", True),
    ("networking.k8s.aws", "ClusterNetworkPolicy", False),
    ("policy.networking.k8s.io", "AdminNetworkPolicy", False),
)
SCHEDULER, FARGATE = "system:kube-scheduler", "eks:fargate-scheduler"
CRON = "system:serviceaccount:kube-system:cronjob-controller"
JOBS = "system:serviceaccount:kube-system:job-controller"
OFFICE_HOURS = "system:serviceaccount:sandbox-schedules:office-hours"
EVERYBODY = (
    INSIDER,
    SERVICE,
    PROVISIONER,
    CONTROLLER,
    NAMESPACES,
    COLLECTOR,
    ACCOUNTS,
    BINDER,
    SCHEDULER,
    FARGATE,
    NODE_AGENT,
    OFFICE_HOURS,
    CRON,
    JOBS,
)
# The deployer may change the guardrails, too.
DEPLOYER = ""
NODE = "walled"
# The namespace of pods that the webhook of their Fargate profile missed, and of others.
MISSED = "missed-pods"
IDLE = 2  # unclaimed sandboxes of its pool

POINT = "fsap-0123456789abcdef0"


@dataclass
class Guarded:
    """The API server, the classes, and their existing objects."""

    live: LiveCluster
    file_system: str
    plans: dict[str, ClassPlan]
    classes: dict[str, ClassObjects]
    policies: tuple[Policy, ...]
    settings: Settings
    sandbox: str = ""  # the claimed sandbox
    bound: str = ""  # the uid of the pod that ran before the guardrails
    volume: str = ""  # with its home
    known: dict[tuple[str, str], Client] = field(default_factory=dict)  # users with a client

    claim, unmarked = "standing", "unmarked"

    @property
    def admin(self) -> Client:
        """The client of the deployer."""
        return self.live.plane.client

    @property
    def objects(self) -> ClassObjects:
        """The objects of the class."""
        return self.classes[CLASS]

    @property
    def open_class(self) -> ClassObjects:
        """The objects of the class without pod security."""
        return self.classes[LOOSE]

    @property
    def namespace(self) -> str:
        """The namespace of the class."""
        return self.objects.namespace["metadata"]["name"]

    @property
    def open_namespace(self) -> str:
        """The namespace without pod security."""
        return self.open_class.namespace["metadata"]["name"]

    @property
    def pool(self) -> str:
        """The name of its pool and its template."""
        return self.objects.pools[0]["metadata"]["name"]

    @property
    def idle(self) -> str:
        """Return an existing unclaimed sandbox; the controller deletes surplus ones at random."""
        found: list[Object] = []

        def there() -> bool:
            pods = self.admin.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
            free = [pod for pod in pods if USER_LABEL not in pod["metadata"]["labels"]]
            found[:] = [pod for pod in free if "deletionTimestamp" not in pod["metadata"] and has_condition(pod)]
            return len(free) == len(found) == IDLE

        assert until(there, TIMEOUT), found
        return found[0]["metadata"]["name"]

    def client_as(self, user: str, group: str = "") -> Client:
        """Return the client of a user."""
        if (user, group) not in self.known:
            admin = self.live.plane.admin
            theirs = Credentials(admin.certificate, admin.key, acting_as=user, in_group=group)
            self.known[user, group] = self.live.plane.client_as(theirs)
        return self.known[user, group]

    def core(self, kind: str, name: str, namespace: str = "") -> str:
        """Return the path of an object of the core API."""
        return f"/api/v1/namespaces/{namespace or self.namespace}/{kind}/{name}"

    def extension(self, kind: str, name: str) -> str:
        """Return the path of an object of agent-sandbox."""
        group = SANDBOXES if kind == "sandboxes" else EXTENSIONS
        return f"/apis/{group}/namespaces/{self.namespace}/{kind}/{name}"


def claim(guarded: Guarded, name: str = "attempt", user: str = "u-1") -> Object:
    """Return a valid claim."""
    return claims.claim(CLASS, guarded.pool, name, owner=user, workspace="w-1")


def swarm(guarded: Guarded) -> Swarm:
    """Return the objects of a task's swarm."""
    plan = guarded.plans[SHARED]
    return swarms.swarm(plan, releases_of(plan)[0], "t-1", 1, owner="u-1")


def seat(name: str = LOOSE) -> SeatPlan:
    """Return a valid declared workspace."""
    return SeatPlan(f"seat-{name}", name, user="u-seat", size="5Gi")


# The folder of the homes.
HOMES_FOLDER = HomeFolder("class-attempt", 0, "/classes/attempt", 100_000_000, {})


def metering_job(guarded: Guarded, name: str = "attempt") -> Object:
    """Return the CronJob that measures homes."""
    scan_job = ScanJob(name, 0, (HOMES_FOLDER,), "0 2 * * *", 1000)
    return job(scan_job, guarded.settings, guarded.file_system, "us-east-1")


def template(guarded: Guarded, of: str = LOOSE) -> Object:
    """Return a valid template."""
    found = deepcopy(guarded.classes[of].templates[0])
    found["metadata"]["name"] += "x"
    return found


def pool(guarded: Guarded) -> Object:
    """Return a valid pool."""
    found = deepcopy(guarded.open_class.pools[0])
    found["metadata"]["name"] += "x"
    return found


def sandbox(guarded: Guarded, name: str = "attempt", of: str = LOOSE) -> Object:
    """Return a valid Sandbox without a claim."""
    blueprint = template(guarded, of)["spec"]
    spec = {key: blueprint[key] for key in ("podTemplate", "volumeClaimTemplates", "service")}
    about = {"name": name, "namespace": guarded.classes[of].namespace["metadata"]["name"]}
    return {"apiVersion": SANDBOXES, "kind": "Sandbox", "metadata": about, "spec": spec}


def pod(guarded: Guarded, name: str = "attempt", of: str = LOOSE) -> Object:
    """Return a pod as the controller creates it."""
    inside = template(guarded, of)["spec"]["podTemplate"]
    home = {"name": "home", "persistentVolumeClaim": {"claimName": f"home-{name}"}}
    owner = {"apiVersion": SANDBOXES, "kind": "Sandbox", "name": name, "uid": "1-2-3", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": guarded.classes[of].namespace["metadata"]["name"],
            "labels": inside["metadata"]["labels"],
            "ownerReferences": [owner],
        },
        "spec": {**inside["spec"], "volumes": [*inside["spec"]["volumes"], home]},
    }


def volume(guarded: Guarded, name: str = "attempt", **spec: Any) -> Object:
    """Return a valid volume."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "mountOptions": ["tls", "iam"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": guarded.namespace,
                "name": "home",
            },
            "csi": {"driver": "efs.csi.aws.com", "volumeHandle": f"{guarded.file_system}::{POINT}"},
            **spec,
        },
    }


def volume_claim(guarded: Guarded, **spec: Any) -> Object:
    """Return a volume claim as the controller creates it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "home-attempt", "namespace": guarded.namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "5Gi"}},
            "storageClassName": guarded.objects.storage_classes[0]["metadata"]["name"],
            **spec,
        },
    }


def plain(guarded: Guarded, version: str, kind: str, name: str = "attempt", **rest: Any) -> Object:
    """Return an object of another kind in the namespace of the class, or in another one."""
    about = {"name": name, "namespace": rest.pop("namespace", guarded.namespace)}
    return {"apiVersion": version, "kind": kind, "metadata": about, **rest}
