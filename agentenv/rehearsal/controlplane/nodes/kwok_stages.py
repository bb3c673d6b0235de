"""The stages in which kwok moves nodes and pods, as kubelets would.

Pods become Ready as soon as they are bound, those of Jobs succeed, and deleted ones disappear at once. The pods that
`agentenv/rehearsal/controlplane/pods/real_pods.py` runs as processes are excluded from each stage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from agentenv.core.service.home_emptying import COMMAND
from agentenv.rehearsal.controlplane.pods import gateway_pod

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
  resources: {{ YAML .resources 2 }}
{{ end }}
"""

# The containers get the resources that the pod requests now.
_RESIZED = """
{{ $statuses := .status.containerStatuses }}
containerStatuses:
{{ range $index, $container := .spec.containers }}
{{ $status := index $statuses $index }}
- name: {{ $status.name | Quote }}
  image: {{ $status.image | Quote }}
  imageID: ""
  restartCount: 0
  ready: true
  started: true
  state: {running: {startedAt: {{ $status.state.running.startedAt | Quote }}}}
  resources: {{ YAML $container.resources 2 }}
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


_RESOURCES_SHOWN = "[.spec.containers[] | .resources // {}] == [.status.containerStatuses[]? | .resources // {}]"

# A container that workspaced starts, as `sandbox_pod.runs_workspaced` knows it.
_WORKSPACED = '.spec.containers[0].command // [] | ((.[0] // "" | endswith("/workspaced")) and .[1] == "run")'

# A container that empties a home, as `emptying_pod.empties_homes` knows it.
_EMPTYING = f".spec.containers[0].command // [] | . == {json.dumps(COMMAND)}"


def stages(excluded_images: Sequence[str], *, sandboxes: bool = False) -> str:
    """Return kwok's configuration; `excluded_images` are patterns of the images that it excludes.

    With `sandboxes` it excludes the pods that workspaced starts, those of Envoy, and those that empty homes.
    """
    exclusions = [_exclude(pattern) for pattern in excluded_images]
    if sandboxes:
        exclusions += [_matches(key, "true", negated=True) for key in (_WORKSPACED, _EMPTYING)]
        exclusions.append(_exclude(gateway_pod.IMAGE))
    documents = [
        _stage("node-up", "Node", [_matches(_READY, "True", negated=True)], {"statusTemplate": _NODE}),
        _stage(
            "pod-up", "Pod", [_ALIVE, _matches(".status.phase", "Pending"), *exclusions], {"statusTemplate": _RUNNING}
        ),
        _stage(
            "job-done",
            "Pod",
            [
                _ALIVE,
                _matches(".status.phase", "Running"),
                _matches(".metadata.ownerReferences[]?.kind", "Job"),
                *exclusions,
            ],
            {"statusTemplate": _SUCCEEDED},
        ),
        _stage(
            "pod-resized",
            "Pod",
            [_ALIVE, _matches(".status.phase", "Running"), _matches(_RESOURCES_SHOWN, "false"), *exclusions],
            {"statusTemplate": _RESIZED},
        ),
        _stage("pod-gone", "Pod", [{**_ALIVE, "operator": "Exists"}, *exclusions], {"delete": True}),
    ]
    return yaml.safe_dump_all(documents, sort_keys=False)


def _stage(name: str, kind: str, conditions: Iterable[dict[str, Any]], changes: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": list(conditions)},
            "next": changes,
        },
    }


def _matches(key: str, value: str, *, negated: bool = False) -> dict[str, Any]:
    return {"key": key, "operator": "NotIn" if negated else "In", "values": [value]}


def _exclude(pattern: str) -> dict[str, Any]:
    # The keys are jq programs
    quoted = pattern.replace("\\", "\\\\").replace('"', '\\"')
    # A container with a command of its own runs another program of the image, and is not excluded.
    return _matches(f'.spec.containers[] | select(.command == null) | .image | test("{quoted}")', "true", negated=True)
