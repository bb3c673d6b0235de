"""Constraints on the program inside sandboxes and on how sandboxes end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.config.values import duration_text
from agentenv.core.capabilities.cluster_facts import DAEMON_PORT
from agentenv.core.classes.pods.daemon import FLAG_PREFIX
from agentenv.core.classes.pods.work_tree import FLUSH_SECONDS, FOLDER

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.settings import Settings

_IMAGE: Place = ("service", "workspaced")
# EC2 announces the interruption of a Spot instance two minutes before it, and the node drains within that time.
SPOT_GRACE = timedelta(seconds=90)
SHORTEST_INTERVAL, LONGEST_INTERVAL = timedelta(seconds=10), timedelta(hours=1)


def _without_image(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.daemon == "workspaced" and settings.service.workspaced is None:
            place = ("sandboxClasses", index, "daemon")
            yield Finding(place, "workspaced without service.workspaced", also=(_IMAGE,))


def _without_service(settings: Settings) -> Iterator[Finding]:
    if settings.service.workspaced is not None and not settings.service.deployed:
        off = "a service that is switched off" if settings.service.image is not None else "no service"
        yield Finding(_IMAGE, f"workspaced with {off}", also=(("service", "image"), ("service", "enabled")))


def _without_command(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.args and not sandbox_class.command and settings.daemon_of(sandbox_class) == "workspaced":
            place = ("sandboxClasses", index)
            also = ((*place, "command"), (*place, "daemon"), _IMAGE)
            yield Finding((*place, "args"), "args without command", also=also)


def _own_variable(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        for position, variable in enumerate(sandbox_class.env):
            if variable.name.startswith(FLAG_PREFIX) and settings.daemon_of(sandbox_class) == "workspaced":
                place = ("sandboxClasses", index)
                yield Finding((*place, "env", position), variable.name, also=((*place, "daemon"), _IMAGE))


def _probe_of_daemon(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        probe = sandbox_class.probe
        if probe is not None and probe.port == DAEMON_PORT and settings.daemon_of(sandbox_class) == "workspaced":
            place = ("sandboxClasses", index)
            yield Finding((*place, "probe", "port"), f"{DAEMON_PORT}", also=((*place, "daemon"), _IMAGE))


def _granted_to_class(settings: Settings) -> Iterator[Finding]:
    served = {other.name for other in settings.sandbox_classes if settings.daemon_of(other) != "none"}
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        for position, grant in enumerate(sandbox_class.capabilities):
            if grant.class_ in served and grant.protocol == "tcp" and DAEMON_PORT in grant.ports:
                place = ("sandboxClasses", index, "capabilities", position)
                yield Finding(place, f"port {DAEMON_PORT} of class {grant.class_}", also=(("sandboxClasses",), _IMAGE))


def _long_grace(settings: Settings) -> Iterator[Finding]:
    node_grace = settings.capacity.termination_grace
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.compute == "fargate":
            continue
        spot = sandbox_class.capacity != "on-demand"
        most = min(SPOT_GRACE, node_grace) if spot else node_grace
        local = sandbox_class.work_tree.kind == "local"
        flush = timedelta(seconds=FLUSH_SECONDS if local else 0)
        if sandbox_class.suspend_grace + flush > most:
            place = ("sandboxClasses", index)
            beside = f" and {duration_text(flush)} for its work tree" if local else ""
            found = f"{duration_text(sandbox_class.suspend_grace)}{beside}, and its nodes wait {duration_text(most)}"
            also = tuple((*place, key) for key in ("capacity", "compute", "workTree"))
            also = (*also, ("capacity", "terminationGrace"))
            yield Finding((*place, "suspendGrace"), found, also=also)


def _work_tree_without_home(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.work_tree.kind != "local":
            continue
        place = ("sandboxClasses", index)
        also = tuple((*place, key) for key in ("storage", "compute", "daemon"))
        if sandbox_class.storage.kind not in {"slot", "shared"} or sandbox_class.compute == "fargate":
            yield Finding((*place, "workTree", "kind"), "local without a home on EFS", also=also)
        elif settings.daemon_of(sandbox_class) != "workspaced":
            daemon = settings.daemon_of(sandbox_class)
            yield Finding((*place, "workTree", "kind"), f"local with daemon {daemon}", also=(*also, _IMAGE))


def _work_tree_in_home(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        path = sandbox_class.storage.mount_path.rstrip("/")
        if sandbox_class.work_tree.kind == "local" and f"{path}/".startswith(f"{FOLDER}/"):
            place = ("sandboxClasses", index)
            yield Finding((*place, "storage", "mountPath"), path, also=((*place, "workTree"),))


def _work_tree_interval(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        interval = sandbox_class.work_tree.interval
        if sandbox_class.work_tree.kind == "local" and not SHORTEST_INTERVAL <= interval <= LONGEST_INTERVAL:
            yield Finding(("sandboxClasses", index, "workTree", "interval"), duration_text(interval))


CONSTRAINTS = (
    Constraint(
        "work-tree-without-home",
        "workspaced keeps a local work tree in the home, and without both it would be lost at every suspension",
        "workTree.kind: local with a home on EFS and daemon: workspaced",
        "set workTree.kind: home",
        _work_tree_without_home,
    ),
    Constraint(
        "work-tree-over-home",
        f"a local work tree is mounted at {FOLDER}",
        f"a mountPath outside of {FOLDER}",
        "mount the home elsewhere, such as at /home/agent",
        _work_tree_in_home,
    ),
    Constraint(
        "work-tree-interval",
        "a shorter interval keeps the disk busy, and a longer one loses more with a node",
        "10s to 1h",
        "set an interval such as 1m",
        _work_tree_interval,
    ),
    Constraint(
        "workspaced-without-image",
        "an init container copies workspaced into the sandbox from an image, which is not public",
        "daemon: workspaced with service.workspaced",
        "set service.workspaced: {image: …}, or daemon: none",
        _without_image,
    ),
    Constraint(
        "workspaced-without-service",
        "workspaced admits nobody without a token, and the service signs the tokens",
        "service.workspaced with a deployed service",
        "set service.image, or remove service.workspaced",
        _without_service,
    ),
    Constraint(
        "workspaced-without-command",
        "workspaced is the first process, and does not know the entry point of the image",
        "args with a command",
        "set command to the entry point of the image, or daemon: none",
        _without_command,
    ),
    Constraint(
        "workspaced-flag-in-env",
        "variables with this prefix are flags of workspaced, which the class sets",
        f"names without the prefix {FLAG_PREFIX}",
        "rename the variable",
        _own_variable,
    ),
    Constraint(
        "probe-of-workspaced",
        "on this port workspaced listens, which answers callers with a token only",
        "a port of a program of the class",
        "remove the probe: a sandbox is ready when workspaced is",
        _probe_of_daemon,
    ),
    Constraint(
        "daemon-granted-to-class",
        "this port of a sandbox is for the gateway and the service alone",
        "ports of programs of that class",
        "remove the port from the grant",
        _granted_to_class,
    ),
    Constraint(
        "suspend-grace-over-node",
        "the node is gone before the processes are killed, and the last of their work is lost",
        f"at most {duration_text(SPOT_GRACE)} on Spot, and at most capacity.terminationGrace",
        "lower suspendGrace, or set capacity: on-demand",
        _long_grace,
    ),
)
