"""workspaced in the pod of a sandbox: an init container copies it from its image, and it is the first process.

It gets the pod's uid from the downward API and the service's public keys from a ConfigMap, because a class without
capabilities may not reach the network. It reads the keys again when they change, and admits nobody until the service
has published them. It also starts the class's command.

The class's uid has no entry in the image's `/etc/passwd`, and its gid none in `/etc/group`; `ssh`, `git`, `whoami` and
`groups` need them. A second init container, of the class's own image, writes the image's files with these entries, and
they are mounted in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL, DAEMON_PORT
from agentenv.core.classes.names import namespace, owner_labels
from agentenv.core.classes.pods.init_container import init_container
from agentenv.core.classes.pods.resources import WORKSPACED_DISK
from agentenv.core.classes.pods.work_tree import RESTORE_SECONDS, has_work_tree

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]

WORKSPACED = "workspaced"
PROGRAM_FOLDER = "/opt/workspaced"
PROGRAM = f"{PROGRAM_FOLDER}/{WORKSPACED}"
# The prefix of variables for flags of `workspaced run`, which it does not pass on to processes.
FLAG_PREFIX = "WORKSPACED_"
POD_INFO, POD_INFO_FOLDER, UID_FILE = "podinfo", "/etc/podinfo", "uid"
KEYS, KEYS_FOLDER, KEYS_FILE = "workspaced-keys", "/etc/workspaced", "keys.json"
PASSWD, PASSWD_PATH = "passwd", "/etc/passwd"
GROUP, GROUP_PATH = "group", "/etc/group"
DAEMON_PATHS = (PROGRAM_FOLDER, POD_INFO_FOLDER, KEYS_FOLDER, PASSWD_PATH, GROUP_PATH)
# Starting takes some milliseconds; a class with a command is ready when its own probe says so.
START_SECONDS = 60


def runs_workspaced(plan: ClassPlan) -> bool:
    """Return whether workspaced is the first process of the class's sandboxes."""
    return plan.daemon == WORKSPACED


def init_containers(plan: ClassPlan, image: str, home: str) -> list[Plain]:
    """Return the init containers that install workspaced and write the passwd and group files, in this order."""
    if plan.workspaced_image is None or not runs_workspaced(plan):
        return []
    mounts = [{"name": WORKSPACED, "mountPath": PROGRAM_FOLDER}]
    files = ["--to", f"{PROGRAM_FOLDER}/{PASSWD}", "--group", f"{PROGRAM_FOLDER}/{GROUP}"]
    return [
        init_container(
            WORKSPACED,
            plan.workspaced_image,
            [f"/{WORKSPACED}", "install", PROGRAM_FOLDER],
            plan.settings,
            mounts=mounts,
        ),
        init_container(
            PASSWD,
            image,
            [PROGRAM, "passwd", *files, "--home", home],
            plan.settings,
            mounts=mounts,
        ),
    ]


def volumes(plan: ClassPlan) -> list[Plain]:
    """Return the volumes of the program, of the pod's uid and of the keys."""
    if not runs_workspaced(plan):
        return []
    uid = {"path": UID_FILE, "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}
    return [
        {"name": WORKSPACED, "emptyDir": {"sizeLimit": str(WORKSPACED_DISK)}},
        {"name": POD_INFO, "downwardAPI": {"items": [uid]}},
        {"name": KEYS, "configMap": {"name": KEYS}},
    ]


def mounts(plan: ClassPlan) -> list[Plain]:
    """Return the mounts of the sandbox's container; all are read-only."""
    if not runs_workspaced(plan):
        return []
    return [
        {"name": WORKSPACED, "mountPath": PROGRAM_FOLDER, "readOnly": True},
        {"name": WORKSPACED, "mountPath": PASSWD_PATH, "subPath": PASSWD, "readOnly": True},
        {"name": WORKSPACED, "mountPath": GROUP_PATH, "subPath": GROUP, "readOnly": True},
        {"name": POD_INFO, "mountPath": POD_INFO_FOLDER, "readOnly": True},
        {"name": KEYS, "mountPath": KEYS_FOLDER, "readOnly": True},
    ]


def variables(plan: ClassPlan) -> dict[str, str]:
    """Return the flags of workspaced that are set as environment variables."""
    if not runs_workspaced(plan):
        return {}
    return {f"{FLAG_PREFIX}GRACE": f"{int(plan.settings.suspend_grace.total_seconds())}s"}


def entry_point(plan: ClassPlan) -> Plain:
    """Return the command, the arguments and the port of the sandbox's container."""
    settings = plan.settings
    own = [*settings.command, *settings.args]
    if not runs_workspaced(plan):
        return {
            **({"command": list(settings.command)} if settings.command else {}),
            **({"args": list(settings.args)} if settings.args else {}),
        }
    uid, keys = f"{POD_INFO_FOLDER}/{UID_FILE}", f"{KEYS_FOLDER}/{KEYS_FILE}"
    return {
        "command": [PROGRAM, "run", "--pod-uid-file", uid, "--keys", keys, *(["--", *own] if own else [])],
        "ports": [{"name": WORKSPACED, "containerPort": DAEMON_PORT, "protocol": "TCP"}],
    }


def probes(plan: ClassPlan) -> Plain:
    """Return the probe of workspaced, for a class without a probe of its own.

    There is only a startup probe: a sandbox that is too busy to answer is working. It runs a command in the container,
    because the network policy only admits the gateway and the service.
    """
    if not runs_workspaced(plan):
        return {}
    handler = {"exec": {"command": [PROGRAM, "health"]}}
    seconds = RESTORE_SECONDS if has_work_tree(plan) else START_SECONDS
    return {"startupProbe": {**handler, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": seconds}}


def keys_configmap(plan: ClassPlan) -> Plain | None:
    """Return the ConfigMap for the public keys. It is empty at first, and only the service publishes keys in it."""
    if not runs_workspaced(plan):
        return None
    labels = {CLASS_LABEL: plan.name, **owner_labels(plan)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": KEYS, "namespace": namespace(plan.name), "labels": labels},
    }
