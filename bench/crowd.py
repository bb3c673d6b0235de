"""As many users as a benchmark wants, without a computer for each: their claims, or all that stands for a workspace.

They are made in the real API server, past its guardrails, while the controller that would fill them is held off: what
is measured is whether anything of the stack looks at them, and ten thousand pods would only be in the way. Workspaces
are like one that the stack's own pool had filled: a sandbox that sleeps, with its home.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agentenv.cli import Refusal
from model.claims import claim
from model.classes.names import EXTENSIONS, HOME, KEPT, namespace
from rehearsal.controlplane.client import ApiError, Client, until

CONTROLLER = "/apis/apps/v1/namespaces/agent-sandbox-system/deployments/agent-sandbox-controller"
_AT_ONCE = 16
_TRIES = 100
_PATIENCE_SECONDS = 120.0
_ASLEEP = {
    "type": "Ready",
    "status": "False",
    "reason": "SandboxSuspended",
    "message": "Sandbox is suspended",
    "lastTransitionTime": "2026-11-18T20:00:00Z",
}
Object = dict[str, Any]


def hold_off(client: Client) -> None:
    """Let nobody fill claims in here any more: for as long as the stage stands, which is not used again after that."""
    client.merge(CONTROLLER, {"spec": {"replicas": 0}})

    def gone() -> bool:
        return not client.get(CONTROLLER)["status"].get("replicas")

    if not until(gone, _PATIENCE_SECONDS):
        raise Refusal("the controller of sandboxes does not stop")


def claims(client: Client, class_name: str, numbers: range) -> None:
    """Make a claim for each of these users."""
    [pool] = [one["metadata"]["name"] for one in _listed(client, class_name, "sandboxwarmpools")[:1]]

    def make(number: int) -> None:
        _made(client, claim(class_name, pool, f"user-{number}", owner=f"u-{number}", workspace=f"w-{number}"))

    with ThreadPoolExecutor(_AT_ONCE) as hands:
        # Whatever one of them fails with is raised here.
        for _ in hands.map(make, numbers):
            pass


def workspaces(client: Client, like: Object, numbers: range) -> None:
    """Make a workspace for each of these users, each like a warm sandbox that there is."""
    space, name = like["metadata"]["namespace"], like["metadata"]["name"]
    home = client.get(f"/api/v1/namespaces/{space}/persistentvolumeclaims/{HOME}-{name}")
    volume = client.get(f"/api/v1/persistentvolumes/{home['spec']['volumeName']}")
    system = volume["spec"]["csi"]["volumeHandle"].partition("::")[0]
    class_name = space.removeprefix(namespace(""))
    [pool] = [one["metadata"]["name"] for one in _listed(client, class_name, "sandboxwarmpools")[:1]]

    def make(number: int) -> None:
        owner, own, sandbox = f"u-{number:026d}", f"w-{number:026d}", f"{pool}-{number:05d}"
        document = claim(class_name, pool, own, owner=owner, workspace=own)
        # Kept since long ago: what is measured is a pass over those of whom nothing is to be done.
        document["metadata"]["annotations"] = {KEPT: "true"}
        claimed = _made(client, document)
        claimed["status"] = {"conditions": [_ASLEEP], "sandbox": {"name": sandbox, "podIPs": ["10.40.1.2"]}}
        client.merge(f"{client.path(claimed)}/status", {"status": claimed["status"]})
        by = {key: claimed[key] for key in ("apiVersion", "kind")} | {"name": own, "uid": claimed["metadata"]["uid"]}
        made = _made(client, _another(like, sandbox, owners=[{**by, "controller": True}], operatingMode="Suspended"))
        owners = [
            {**{key: made[key] for key in ("apiVersion", "kind")}, "name": sandbox, "uid": made["metadata"]["uid"]}
        ]
        about = {"namespace": space, "name": f"{HOME}-{sandbox}"}
        asked = _made(client, _another(home, about["name"], owners=owners, volumeName=f"pvc-{sandbox}"))
        # An access point of its own, by name: there is none, and nobody is to tag one for all of them in turn.
        csi = {**volume["spec"]["csi"], "volumeHandle": f"{system}::fsap-{number:017x}"}
        ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **about, "uid": asked["metadata"]["uid"]}
        kept = _another(volume, f"pvc-{sandbox}", claimRef=ref, csi=csi, persistentVolumeReclaimPolicy="Retain")
        whose = claimed["spec"]["additionalPodMetadata"]["labels"]
        kept["metadata"]["labels"] = {**kept["metadata"].get("labels", {}), **whose}
        _made(client, kept)

    with ThreadPoolExecutor(_AT_ONCE) as hands:
        for _ in hands.map(make, numbers):
            pass


def _another(like: Object, name: str, owners: list[Object] | None = None, **spec: Any) -> Object:
    """A document like one that there is, under another name."""
    about = {key: like["metadata"][key] for key in ("namespace", "labels", "annotations") if key in like["metadata"]}
    about |= {"name": name, **({"ownerReferences": owners} if owners else {})}
    return {**{key: like[key] for key in ("apiVersion", "kind")}, "metadata": about, "spec": {**like["spec"], **spec}}


def _made(client: Client, thing: Object) -> Object:
    """Make it, however often others are counted in its quota at the same moment."""
    for _ in range(_TRIES):
        try:
            return client.create(thing)
        except ApiError as refusal:
            if refusal.reason != "Conflict":
                raise
    raise Refusal(f"{thing['kind']} {thing['metadata']['name']} cannot be counted in its quota")


def count(client: Client, class_name: str) -> int:
    """How many claims there are."""
    return len(_listed(client, class_name, "sandboxclaims"))


def _listed(client: Client, class_name: str, plural: str) -> list[Object]:
    return client.get(f"/apis/{EXTENSIONS}/namespaces/{namespace(class_name)}/{plural}")["items"]
