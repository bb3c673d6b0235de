"""Promises about workspaces: ready from the pool, with a home of their own, awake on traffic, replaced when evicted."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from agentenv.cli.prove.deployment import START_SECONDS, Deployment, Object
from agentenv.cli.prove.promises import Broken, NotTried, Promise
from agentenv.client import ApiError
from agentenv.rehearsal.controlplane.client import ApiError as KubeError
from agentenv.rehearsal.controlplane.nodes.interruptions import queue_of, send_warning

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentenv.client.api import UsageLine

_WARM_SECONDS = 5.0
_LEDGER_SECONDS = 1200.0  # it is written every ten minutes
_POOL_SECONDS = 1200.0  # nodes are launched, and images pulled


def ready_in_seconds(deployment: Deployment) -> str:
    """Create a workspace once the pool of its class is full, and run a command in it."""
    class_ = deployment.enterable_class()
    deployment.wait(
        lambda: _pool_is_full(deployment, class_.name), _POOL_SECONDS, f"the pool of {class_.name} is short"
    )
    began = time.monotonic()
    with deployment.workspace():
        created = time.monotonic() - began
    if created > _WARM_SECONDS:
        raise Broken(f"a workspace from a full pool took {created:.1f} s, more than {_WARM_SECONDS:.0f}")
    return f"running {created * 1000:.0f} ms after the request"


def has_its_own_home(deployment: Deployment) -> str:
    """Write a file in one workspace, which another one must not see; their access points must differ."""
    text = secrets.token_hex(8)
    with deployment.workspace() as first, deployment.workspace() as second:
        deployment.run(first["id"], f"echo {text} > ~/proof")
        if text in (seen := deployment.run(second["id"], "cat ~/proof 2>&1 || true")):
            raise Broken(f"a second workspace read the file of the first: {seen.strip()}")
        handles = {_home_of(deployment, each) for each in (first, second)}
        if len(handles) < 2:
            raise Broken(f"two workspaces share the home {handles}")
        mount = deployment.run(first["id"], 'grep " $HOME " /proc/mounts || true').strip()
    return f"two workspaces, homes {' and '.join(sorted(handles))}" + (f", mounted as {mount}" if mount else "")


def wakes_on_traffic(deployment: Deployment) -> str:
    """Suspend a workspace; a command through the gateway must wake it, with its files."""
    text = secrets.token_hex(8)
    with deployment.workspace() as workspace:
        deployment.run(workspace["id"], f"echo {text} > ~/proof")
        deployment.service.suspend_workspace(workspace["id"])
        suspended = lambda: deployment.service.get_workspace(workspace["id"])["state"] == "suspended"  # noqa: E731
        deployment.wait(suspended, START_SECONDS, "the workspace is not suspended")
        began = time.monotonic()
        if deployment.run(workspace["id"], "cat ~/proof").strip() != text:
            raise Broken("the file of a workspace was not there after a sleep")
    return f"the first output {time.monotonic() - began:.1f} s after a request to a sleeping workspace, with its file"


def survives_eviction(deployment: Deployment) -> str:
    """Evict the pod of a workspace, which must come back with its files."""
    with deployment.workspace() as workspace:
        pod = deployment.pod(workspace)
        metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction"

        def evict() -> str:
            try:
                deployment.kubernetes.request("POST", path, eviction)
            except KubeError as error:
                raise NotTried(f"the API server refused the eviction: {error}") from None
            return "evicted"

        return _replaced(deployment, workspace, pod, evict)


def survives_spot(deployment: Deployment) -> str:
    """Interrupt the Spot instance of a running workspace: it moves to another node with its files, its holder is
    notified, and its processes have time to end. An account does it by AWS FIS, a rehearsal by EC2's warning.
    """
    if not deployment.surroundings.simulated and deployment.spot_role is None:
        raise NotTried("no role for AWS FIS was given with --interrupt-spot")
    with deployment.workspace() as workspace:
        id_, pod = str(workspace["id"]), deployment.pod(workspace)
        node = deployment.kubernetes.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
        if node["metadata"]["labels"].get("karpenter.sh/capacity-type") != "spot":
            raise NotTried("the workspace is not on a Spot instance")
        region, _, instance = node["spec"]["providerID"].removeprefix("aws:///").partition("/")
        cause = warn if deployment.surroundings.simulated else interrupt
        deployment.run(id_, _ENDS_SLOWLY)
        states = set[str]()
        evidence = _replaced(deployment, workspace, pod, lambda: cause(deployment, region[:-1], instance), states)
        if "moving" not in states:
            raise Broken(f"the workspace was never `moving`, but {', '.join(sorted(states))}")
        if (after := deployment.pod(workspace)["spec"]["nodeName"]) == node["metadata"]["name"]:
            raise Broken(f"it runs on {after} again, which goes away")
        if "in time" not in deployment.run(id_, "cat ~/ended 2>/dev/null || true"):
            raise Broken("a process of the workspace had no time to end")
        message = deployment.wait(
            lambda: _event(deployment, id_, "Moving"), START_SECONDS, "its holder was not notified"
        )
    return f"{evidence}; its holder was notified: {message}"


# A process in the background that a signal ends, and that takes a while for it.
_ENDS_SLOWLY = """
setsid sh -c 'trap "sleep 5; echo in time > ~/ended; exit 0" TERM; touch ~/started; while :; do sleep 0.2; done' \
  > /dev/null 2>&1 &
while [ ! -e ~/started ]; do sleep 0.1; done
"""


def _event(deployment: Deployment, id_: str, reason: str) -> str:
    """Return the message of an event in the stream of a workspace, as a client that follows it gets it."""
    for message in deployment.service.follow_events(after="0", workspace=id_):
        if message.kind == "event" and message.data["reason"] == reason:
            return str(message.data["message"])
        if message.kind == "ready":
            break
    return ""


def warn(deployment: Deployment, region: str, instance: str) -> str:  # noqa: ARG001 - as `interrupt`
    """Send EC2's warning of an instance to the queue that Karpenter reads."""
    controller = deployment.kubernetes.get("/apis/apps/v1/namespaces/karpenter/deployments/karpenter")
    sqs = deployment.client("sqs")
    send_warning(sqs, sqs.get_queue_url(QueueName=queue_of(controller))["QueueUrl"], instance)
    return f"warned {instance} by EC2's message"


def interrupt(deployment: Deployment, region: str, instance: str) -> str:
    """Start the experiment that interrupts an instance after two minutes; its template is deleted at once."""
    account = deployment.client("sts").get_caller_identity()["Account"]
    fis = deployment.client("fis")
    template = fis.create_experiment_template(
        clientToken=secrets.token_hex(16),
        description="Interrupt the instance of one workspace",
        roleArn=deployment.spot_role,
        stopConditions=[{"source": "none"}],
        targets={
            "instance": {
                "resourceType": "aws:ec2:spot-instance",
                "resourceArns": [f"arn:aws:ec2:{region}:{account}:instance/{instance}"],
                "selectionMode": "ALL",
            }
        },
        actions={
            "interrupt": {
                "actionId": "aws:ec2:send-spot-instance-interruptions",
                "parameters": {"durationBeforeInterruption": "PT2M"},
                "targets": {"SpotInstances": "instance"},
            }
        },
        tags={"environment": deployment.settings.environment, "component": "prove"},
    )["experimentTemplate"]["id"]
    try:
        experiment = fis.start_experiment(clientToken=secrets.token_hex(16), experimentTemplateId=template)
    finally:
        fis.delete_experiment_template(id=template)
    return f"interrupted {instance} by {experiment['experiment']['id']}"


def is_accounted(deployment: Deployment) -> str:
    """Read the usage that the ledger has of the caller, who had workspaces before; without one, create one."""

    def line() -> UsageLine | None:
        try:
            return next(iter(deployment.service.get_usage()["lines"]), None)
        except ApiError as error:
            if error.kind in {"no-ledger", "not-found"}:
                raise NotTried(f"the service has no ledger: {error}") from None
            raise

    row = line()
    if row is None and deployment.surroundings.simulated:
        raise NotTried("the ledger is written every ten minutes, and a rehearsal does not wait for it")
    if row is None:
        with deployment.workspace() as workspace:
            row = deployment.wait(line, _LEDGER_SECONDS, f"the ledger has no line of {workspace['id']}")
    return f"the ledger has {row['hours']} hours of {row['workspace']} in class {row['class']} on {row['day']}"


def _replaced(
    deployment: Deployment, workspace: Object, pod: Object, cause: Callable[[], str], states: set[str] | None = None
) -> str:
    """Cause the loss of a pod; wait for the next one, and check a file of the home. `states` gets those on the way."""
    text = secrets.token_hex(8)
    deployment.run(workspace["id"], f"echo {text} > ~/proof; sync")
    began = time.monotonic()
    evidence = cause()

    def replaced() -> bool:
        if states is not None:
            states.add(deployment.service.get_workspace(workspace["id"])["state"])
        try:
            return deployment.pod(workspace)["metadata"]["uid"] != pod["metadata"]["uid"]
        except KubeError as error:
            if error.status != 404:
                raise
            return False

    deployment.wait(replaced, START_SECONDS, "the pod was not replaced")
    deployment.running(workspace["id"])
    if deployment.run(workspace["id"], "cat ~/proof").strip() != text:
        raise Broken("the file of a workspace was not there after its pod was replaced")
    return f"{evidence}; running again with its file after {time.monotonic() - began:.0f} s"


def _pool_is_full(deployment: Deployment, name: str) -> bool:
    rows = deployment.service.list_classes()["items"]
    pool = next(row for row in rows if row["name"] == name)
    return bool(pool["ready"] >= pool["size"]) if "ready" in pool else True


def _home_of(deployment: Deployment, workspace: Object) -> str:
    pod = deployment.pod(workspace)
    space = pod["metadata"]["namespace"]
    for volume in pod["spec"]["volumes"]:
        if volume["name"] == "home" and "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            name = deployment.kubernetes.get(f"/api/v1/namespaces/{space}/persistentvolumeclaims/{claim}")["spec"][
                "volumeName"
            ]
            return str(deployment.kubernetes.get(f"/api/v1/persistentvolumes/{name}")["spec"]["csi"]["volumeHandle"])
    raise NotTried(f"workspaces of {workspace['class']} have no home that outlives them")


PROMISES = (
    Promise("warm-start", "a workspace is ready in under five seconds from a warm pool", ready_in_seconds),
    Promise("own-home", "each workspace has a home of its own", has_its_own_home),
    Promise("wake", "it sleeps when idle, wakes on traffic, and comes back with its files", wakes_on_traffic),
    Promise("eviction", "a workspace whose pod is evicted comes back with its files", survives_eviction),
    Promise("spot", "a workspace whose Spot instance is interrupted comes back with its files", survives_spot),
)
# Last, because the ledger is written every few minutes.
ACCOUNTING = Promise("accounting", "what a workspace uses is in the ledger, under its owner", is_accounted)
