"""Create the objects of many users without running their sandboxes: claims, or all objects of a workspace.

They are created in the real API server, with its guardrails, while the agent-sandbox controller is stopped: the
benchmarks measure whether the stack depends on their number, and need no pods. Workspaces are copies of a suspended
workspace: claim, sandbox, home, volume and access point, each with its labels, annotations and status.
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
_CONCURRENT = 16
_ATTEMPTS = 100
_TIMEOUT_SECONDS = 120.0
Object = dict[str, Any]


def stop_controller(client: Client) -> None:
    """Stop the agent-sandbox controller for the rest of the stage."""
    client.merge(CONTROLLER, {"spec": {"replicas": 0}})

    def gone() -> bool:
        return not client.get(CONTROLLER)["status"].get("replicas")

    if not until(gone, _TIMEOUT_SECONDS):
        raise CommandError("the agent-sandbox controller does not stop")


def claims(client: Client, class_name: str, numbers: range) -> None:
    """Create a claim for each of these users."""
    [pool] = [row["metadata"]["name"] for row in _list(client, class_name, "sandboxwarmpools")[:1]]

    def make(number: int) -> None:
        _create(client, claim(class_name, pool, f"user-{number}", owner=f"u-{number}", workspace=f"w-{number}"))

    with ThreadPoolExecutor(_CONCURRENT) as executor:
        # The iteration raises the error of a failed call.
        for _ in executor.map(make, numbers):
            pass


def workspaces(client: Client, efs: Any, claim_: Object, numbers: range) -> None:
    """Create a copy of a suspended workspace for each of these users, with its own access point in `efs`."""
    template = _Workspace.of(client, efs, claim_)

    def make(number: int) -> None:
        template.copy(client, efs, number)

    with ThreadPoolExecutor(_CONCURRENT) as executor:
        for _ in executor.map(make, numbers):
            pass


@dataclass(frozen=True)
class _Workspace:
    """The objects of one workspace."""

    claim: Object
    sandbox: Object
    home: Object
    volume: Object
    point: Object
    systems: Sequence[str]

    @classmethod
    def of(cls, client: Client, efs: Any, claim: Object) -> _Workspace:
        namespace_, name = claim["metadata"]["namespace"], claim["status"]["sandbox"]["name"]
        home = client.get(f"/api/v1/namespaces/{namespace_}/persistentvolumeclaims/{HOME}-{name}")
        volume = client.get(f"/api/v1/persistentvolumes/{home['spec']['volumeName']}")
        point = volume["spec"]["csi"]["volumeHandle"].partition("::")[2]
        (described,) = efs.describe_access_points(AccessPointId=point)["AccessPoints"]
        sandbox = client.get(f"/apis/{SANDBOXES}/namespaces/{namespace_}/sandboxes/{name}")
        # One file system has at most 10,000 access points, which include those of the pool.
        systems = [row["FileSystemId"] for row in efs.describe_file_systems()["FileSystems"]]
        return cls(claim, sandbox, home, volume, described, sorted(systems))

    def copy(self, client: Client, efs: Any, number: int) -> None:
        """Create the objects of another user, with names of the same length and with references between them."""
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
        for document in (self.claim, self.sandbox, self.home, self.volume):
            created = _create(client, _renamed(document, names))
            names[document["metadata"]["uid"]] = created["metadata"]["uid"]
            if document in (self.claim, self.sandbox):
                status = _renamed({"metadata": {}, "status": document["status"]}, names)
                client.merge(f"{client.path(created)}/status", {"status": status["status"]})

    def _point(self, efs: Any, names: Mapping[str, str], owner: str) -> str:
        root = self.point["RootDirectory"]
        path = str(Path(root["Path"]).with_name(names[self.volume["metadata"]["name"]]))
        created = efs.create_access_point(
            ClientToken=owner,
            FileSystemId=names[self.point["FileSystemId"]],
            PosixUser={key: self.point["PosixUser"][key] for key in ("Uid", "Gid")},
            RootDirectory={**root, "Path": path},
            Tags=[{"Key": key, "Value": value} for key, value in self._tags(owner).items()],
        )
        return str(created["AccessPointId"])

    def _tags(self, owner: str) -> dict[str, str]:
        """Return the tags of the copied access point, with the owner and class that the slot loop sets later."""
        status = {row["Key"]: row["Value"] for row in self.point["Tags"]}
        class_name = self.claim["metadata"]["namespace"].removeprefix(namespace(""))
        return {**status, USER_TAG: owner, CLASS_TAG: class_name}


def _renamed(document: Object, names: Mapping[str, str]) -> Object:
    """Return a copy of a document with other names, and without the fields that the API server sets."""
    text = json.dumps(document)
    for before, now in names.items():
        text = text.replace(before, now)
    found: Object = json.loads(text)
    for key in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        found["metadata"].pop(key, None)
    return found


def _create(client: Client, document: Object) -> Object:
    """Create an object, with retries for conflicts on its quota."""
    for _ in range(_ATTEMPTS):
        try:
            return client.create(document)
        except ApiError as refusal:
            if refusal.reason != "Conflict":
                raise
    raise CommandError(f"{document['kind']} {document['metadata']['name']} conflicts on its quota")


def count(client: Client, class_name: str) -> int:
    """Return the number of claims."""
    return len(_list(client, class_name, "sandboxclaims"))


def _list(client: Client, class_name: str, plural: str) -> list[Object]:
    return client.get(f"/apis/{EXTENSIONS}/namespaces/{namespace(class_name)}/{plural}")["items"]
