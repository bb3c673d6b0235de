"""As many users as a benchmark wants, without a computer for each: their claims, or all that stands for a workspace.

They are made in the real API server, past its guardrails, while the controller that would fill them is held off: what
is measured is whether anything of the stack looks at them, and ten thousand pods would only be in the way. Workspaces
are like one that the stack itself has made and put to sleep: claim, sandbox, home, volume and access point, each with
all that the controllers and the service had said on it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.core.classes.names import EXTENSIONS, HOME, SANDBOXES, USER_LABEL, namespace
from agentenv.core.workspaces.claims import claim
from agentenv.core.workspaces.seats import CLASS_TAG, USER_TAG
from agentenv.rehearsal.controlplane.client import ApiError, Client, until

CONTROLLER = "/apis/apps/v1/namespaces/agent-sandbox-system/deployments/agent-sandbox-controller"
_AT_ONCE = 16
_TRIES = 100
_PATIENCE_SECONDS = 120.0
Object = dict[str, Any]


def hold_off(client: Client) -> None:
    """Let nobody fill claims in here any more: for as long as the stage stands, which is not used again after that."""
    client.merge(CONTROLLER, {"spec": {"replicas": 0}})

    def gone() -> bool:
        return not client.get(CONTROLLER)["status"].get("replicas")

    if not until(gone, _PATIENCE_SECONDS):
        raise CommandError("the controller of sandboxes does not stop")


def claims(client: Client, class_name: str, numbers: range) -> None:
    """Make a claim for each of these users."""
    [pool] = [one["metadata"]["name"] for one in _listed(client, class_name, "sandboxwarmpools")[:1]]

    def make(number: int) -> None:
        _made(client, claim(class_name, pool, f"user-{number}", owner=f"u-{number}", workspace=f"w-{number}"))

    with ThreadPoolExecutor(_AT_ONCE) as hands:
        # Whatever one of them fails with is raised here.
        for _ in hands.map(make, numbers):
            pass


def workspaces(client: Client, efs: Any, like: Object, numbers: range) -> None:
    """Make a workspace for each of these users, each in all like the one that has this claim, and that sleeps.

    `efs` is a client of the account's own: each has an access point of its own.
    """
    there = _There.of(client, efs, like)

    def make(number: int) -> None:
        there.another(client, efs, number)

    with ThreadPoolExecutor(_AT_ONCE) as hands:
        for _ in hands.map(make, numbers):
            pass


@dataclass(frozen=True)
class _There:
    """All that stands for one workspace."""

    claim: Object
    sandbox: Object
    home: Object
    volume: Object
    point: Object
    systems: Sequence[str]

    @classmethod
    def of(cls, client: Client, efs: Any, claim: Object) -> _There:
        space, name = claim["metadata"]["namespace"], claim["status"]["sandbox"]["name"]
        home = client.get(f"/api/v1/namespaces/{space}/persistentvolumeclaims/{HOME}-{name}")
        volume = client.get(f"/api/v1/persistentvolumes/{home['spec']['volumeName']}")
        point = volume["spec"]["csi"]["volumeHandle"].partition("::")[2]
        (described,) = efs.describe_access_points(AccessPointId=point)["AccessPoints"]
        sandbox = client.get(f"/apis/{SANDBOXES}/namespaces/{space}/sandboxes/{name}")
        # One file system has ten thousand access points at the most, and a pool's are among them.
        systems = [one["FileSystemId"] for one in efs.describe_file_systems()["FileSystems"]]
        return cls(claim, sandbox, home, volume, described, sorted(systems))

    def another(self, client: Client, efs: Any, number: int) -> None:
        """Another user's, under names as long as the first one's, with what each of its objects says of the others."""
        about = self.claim["metadata"]
        owner, own = f"u-{number:026d}", f"w-{number:026d}"
        names = {
            about["labels"][USER_LABEL]: owner,
            about["name"]: own,
            self.sandbox["metadata"]["name"]: f"{self.claim['spec']['warmPoolRef']['name']}-{number:05d}",
            self.volume["metadata"]["name"]: f"pvc-{uuid.uuid4()}",
            self.point["FileSystemId"]: self.systems[number % len(self.systems)],
        }
        names[self.point["AccessPointId"]] = self._point(efs, names, owner)
        for one in (self.claim, self.sandbox, self.home, self.volume):
            made = _made(client, _renamed(one, names))
            names[one["metadata"]["uid"]] = made["metadata"]["uid"]
            if one in (self.claim, self.sandbox):
                said = _renamed({"metadata": {}, "status": one["status"]}, names)
                client.merge(f"{client.path(made)}/status", {"status": said["status"]})

    def _point(self, efs: Any, names: Mapping[str, str], owner: str) -> str:
        root = self.point["RootDirectory"]
        path = str(Path(root["Path"]).with_name(names[self.volume["metadata"]["name"]]))
        made = efs.create_access_point(
            ClientToken=owner,
            FileSystemId=names[self.point["FileSystemId"]],
            PosixUser={key: self.point["PosixUser"][key] for key in ("Uid", "Gid")},
            RootDirectory={**root, "Path": path},
            Tags=[{"Key": key, "Value": value} for key, value in self._tags(owner).items()],
        )
        return str(made["AccessPointId"])

    def _tags(self, owner: str) -> dict[str, str]:
        """Those of the first one's, and whose it is, which the pass over slots may not have come to say there."""
        said = {row["Key"]: row["Value"] for row in self.point["Tags"]}
        class_name = self.claim["metadata"]["namespace"].removeprefix(namespace(""))
        return {**said, USER_TAG: owner, CLASS_TAG: class_name}


def _renamed(document: Object, names: Mapping[str, str]) -> Object:
    """A document like one that there is, with other names wherever it has them, as nobody has stored it yet."""
    text = json.dumps(document)
    for before, now in names.items():
        text = text.replace(before, now)
    found: Object = json.loads(text)
    for key in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        found["metadata"].pop(key, None)
    return found


def _made(client: Client, thing: Object) -> Object:
    """Make it, however often others are counted in its quota at the same moment."""
    for _ in range(_TRIES):
        try:
            return client.create(thing)
        except ApiError as refusal:
            if refusal.reason != "Conflict":
                raise
    raise CommandError(f"{thing['kind']} {thing['metadata']['name']} cannot be counted in its quota")


def count(client: Client, class_name: str) -> int:
    """How many claims there are."""
    return len(_listed(client, class_name, "sandboxclaims"))


def _listed(client: Client, class_name: str, plural: str) -> list[Object]:
    return client.get(f"/apis/{EXTENSIONS}/namespaces/{namespace(class_name)}/{plural}")["items"]
