"""What the state keeps of an object: how it is in the cluster, and beside it what was asked and who wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.objects import Object, pluck
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, Bag, Path, project, to_api, to_sdk

INPUTS: Final = "__inputs"
INITIAL_VERSION: Final = "__initialApiVersion"
MANAGER: Final = "__fieldManager"
_OWN: Final = frozenset({INPUTS, INITIAL_VERSION, MANAGER})
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_HIDDEN: Final = frozenset({"data", "stringData"})


def outputs(inputs: Bag, live: Mapping[str, Any], manager: str, initial: str = "") -> Bag:
    """The state of an object as it is in the cluster; what was secret in the inputs is secret here."""
    # The managers of the fields fill more than the object, and are only of use to the server.
    told = to_sdk(objects.with_metadata(live, managedFields=None) if objects.metadata(live) else live)
    values = {
        **told,
        INPUTS: inputs.values,
        INITIAL_VERSION: initial or objects.api_version(live) or objects.api_version(inputs.values),
        MANAGER: manager,
    }
    secrets = hidden(inputs.secrets, told)
    return Bag(values, secrets | {(INPUTS, *path) for path in hidden(inputs.secrets, inputs.values)})


def hidden(secrets: frozenset[Path], values: Mapping[str, Any]) -> frozenset[Path]:
    """The secret places of an object: where the inputs' secrets are in it, and all of a Secret's data."""
    found = project(secrets, values)
    if objects.is_secret(values):
        found = frozenset(p for p in found if p[0] not in _HIDDEN) | {(k,) for k in _HIDDEN if k in values}
        if objects.annotation(values, _LAST_APPLIED):
            found |= {("metadata", "annotations", _LAST_APPLIED)}
    return found


def live_of(state: Mapping[str, Any]) -> Object:
    """The object as the state last saw it, as the API spells it."""
    return to_api({k: v for k, v in state.items() if k not in _OWN})


def inputs_of(state: Mapping[str, Any]) -> Object:
    found = state.get(INPUTS)
    return dict(found) if isinstance(found, Mapping) else {}


def manager_of(state: Mapping[str, Any]) -> str:
    found = state.get(MANAGER)
    return found if isinstance(found, str) else ""


def initial_of(state: Mapping[str, Any]) -> str:
    found = state.get(INITIAL_VERSION)
    return found if isinstance(found, str) else ""


def foreseen(answer: Object, asked: Mapping[str, Any], *, new: bool) -> Object:
    """A dry run's answer, with unknown what the real run will choose anew."""
    chosen = ("uid", "creationTimestamp", "resourceVersion", "generation") if new else ("resourceVersion", "generation")
    out = objects.with_metadata(answer, **dict.fromkeys(chosen, UNKNOWN))
    if new:
        out.pop("status", None)
        if (objects.kind(out), objects.api_version(out)) == ("Service", "v1"):
            out["spec"] = _foreseen_service(out, asked)
    return out


def _foreseen_service(answer: Object, asked: Mapping[str, Any]) -> Object:
    spec = dict(answer.get("spec") or {})
    for field in ("clusterIP", "clusterIPs", "healthCheckNodePort"):
        if field in spec and pluck(asked, "spec", field) is None and pluck(asked, "spec", "clusterIP") is None:
            spec[field] = UNKNOWN
    given = pluck(asked, "spec", "ports") or []
    ports = [dict(port) for port in spec.get("ports") or []]
    for index, port in enumerate(ports):
        if "nodePort" in port and not (index < len(given) and pluck(given[index], "nodePort")):
            port["nodePort"] = UNKNOWN
    return {**spec, "ports": ports} if ports else spec
