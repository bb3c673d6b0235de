"""Recording rules of ownership and usage per minute: CPU, memory, traffic and files of each sandbox.

The owner of a pod is taken from its labels in that minute (`kube_pod_labels`). So the warm time of a slot stays with
the pool when the slot is claimed later.
"""

from __future__ import annotations

from itertools import starmap

from agentenv.core.metering.exporters import CLAIM, USER, WARM, WORKSPACE, series_label
from agentenv.core.metering.rule import OWNER, SANDBOXES, Rule, named, one_each, shared_out

# The cgroup of a pod as a whole: its containers, and the kernel or monitor that gVisor and Kata run beside them. The
# pod's pause container has no name either, but an image.
WHOLE_POD = f'{SANDBOXES},pod!="",container="",image=""'

_user, _workspace, _claim, _warm = (series_label(label) for label in (USER, WORKSPACE, CLAIM, WARM))

_HOLDERS = (
    ("owner", f'{_user}!=""'),
    ("pool", f'{_user}="",{_warm}!=""'),
    ("nobody", f'{_user}="",{_warm}=""'),
)


def _held(by: str, which: str) -> str:
    """Return the expression of pods that are held by an owner, by a pool or by nobody."""
    expr = named(f"kube_pod_labels{{{SANDBOXES},{which}}}", user=_user, workspace=_workspace, claim_uid=_claim)
    expr = f'label_replace({expr}, "class", "$1", "namespace", "sandbox-(.+)")'
    return f'label_replace({expr}, "held_by", "{by}", "", "")'


OWNERS = (
    Rule(
        "sandbox:pod_owner:info",
        one_each(
            "namespace, pod",
            f"max by (namespace, pod, held_by, {OWNER}) (\n  " + "\n  or ".join(starmap(_held, _HOLDERS)) + "\n)",
        ),
        "whose each sandbox is now: its owner's, its pool's while nobody has claimed it, or nobody's, which is a fault",
    ),
    Rule(
        "sandbox:volume_owner:info",
        one_each(
            "persistentvolume",
            "max by (persistentvolume, user) ("
            + named(f'kube_persistentvolume_labels{{{_user}!=""}}', user=_user)
            + ")",
        ),
        "whose each home is, asleep or not: the volume says it for as long as it stands",
    ),
    Rule(
        "sandbox:pod_node:info",
        one_each("namespace, pod", f'max by (namespace, pod, node) (kube_pod_info{{{SANDBOXES},node!=""}})'),
        "where each sandbox runs",
    ),
)

USED = (
    Rule(
        "sandbox:pod_cpu_seconds:rate1m",
        f"sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{{{WHOLE_POD}}}[1m]))",
        "CPU-seconds a second of each sandbox",
    ),
    Rule(
        "sandbox:pod_memory_bytes:avg1m",
        f"sum by (namespace, pod) (avg_over_time(container_memory_working_set_bytes{{{WHOLE_POD}}}[1m]))",
        "memory in use by each sandbox",
    ),
    Rule(
        "sandbox:pod_network_bytes:rate1m",
        f'sum by (namespace, pod) (rate(container_network_receive_bytes_total{{{SANDBOXES},pod!=""}}[1m]))\n'
        f'+ sum by (namespace, pod) (rate(container_network_transmit_bytes_total{{{SANDBOXES},pod!=""}}[1m]))',
        "bytes a second that each sandbox sends and receives",
    ),
)


ATTRIBUTED = (
    *shared_out("cpu_seconds", "rate1m", "the CPU time of a sandbox"),
    *shared_out("memory_bytes", "avg1m", "the memory of a sandbox"),
    *shared_out("network_bytes", "rate1m", "the traffic of a sandbox"),
)
