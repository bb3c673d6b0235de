"""What kwok does to nodes and pods: the life that kubelets would give them, in stages.

Pods become Ready as soon as they are bound, those of Jobs succeed, and deleted ones go at once. The pods that
`agentenv/rehearsal/controlplane/pods/real_pods.py` runs for real are left to it: each rule is closed to their images.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import yaml

_ALIVE = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
_READY = '.status.conditions[]? | select(.type == "Ready") | .status'

_NODE = """
{{ $now := Now }}
phase: Running
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
"""

_RUNNING = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
hostIP: {{ index ( NodeIPsWith .spec.nodeName ) 0 | Quote }}
{{ $host := or .spec.hostNetwork false }}
{{ $addresses := PodIPsWith .spec.nodeName $host .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ index $addresses 0 | Quote }}
podIPs:
{{ range $addresses }}
- ip: {{ . | Quote }}
{{ end }}
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "ContainersReady" "Ready" }}
- type: {{ $type }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
{{ range .spec.readinessGates }}
- type: {{ .conditionType | Quote }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  restartCount: 0
  ready: true
  {{ if eq ( or .restartPolicy "" ) "Always" }}
  started: true
  state: {running: {startedAt: {{ $now | Quote }}}}
  {{ else }}
  started: false
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
  {{ end }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  restartCount: 0
  ready: true
  started: true
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
"""

_SUCCEEDED = """
{{ $now := Now }}
phase: Succeeded
conditions:
{{ range $type := list "ContainersReady" "Ready" }}
- type: {{ $type }}
  status: "False"
  reason: PodCompleted
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  restartCount: 0
  ready: false
  started: false
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
"""


def stages(residents: Sequence[str]) -> str:
    """Kwok's configuration; `residents` are patterns of the images that it leaves alone."""
    ours = [_leave(pattern) for pattern in residents]
    documents = [
        _stage("node-up", "Node", [_is(_READY, "True", no=True)], {"statusTemplate": _NODE}),
        _stage("pod-up", "Pod", [_ALIVE, _is(".status.phase", "Pending"), *ours], {"statusTemplate": _RUNNING}),
        _stage(
            "job-done",
            "Pod",
            [_ALIVE, _is(".status.phase", "Running"), _is(".metadata.ownerReferences[]?.kind", "Job"), *ours],
            {"statusTemplate": _SUCCEEDED},
        ),
        _stage("pod-gone", "Pod", [{**_ALIVE, "operator": "Exists"}, *ours], {"delete": True}),
    ]
    return yaml.safe_dump_all(documents, sort_keys=False)


def _stage(name: str, kind: str, when: Iterable[dict[str, Any]], then: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": list(when)},
            "next": then,
        },
    }


def _is(key: str, value: str, *, no: bool = False) -> dict[str, Any]:
    return {"key": key, "operator": "NotIn" if no else "In", "values": [value]}


def _leave(pattern: str) -> dict[str, Any]:
    # The keys are jq programs
    quoted = pattern.replace("\\", "\\\\").replace('"', '\\"')
    # One with a command of its own runs something else of the image, and is no resident.
    return _is(f'.spec.containers[] | select(.command == null) | .image | test("{quoted}")', "true", no=True)
