"""The state of an object: the live object, the inputs and the field manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.objects import Object, get_field
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, Path, PropertyMap, project, to_api, to_sdk

INPUTS: Final = "__inputs"
INITIAL_VERSION: Final = "__initialApiVersion"
MANAGER: Final = "__fieldManager"
_OWN: Final = frozenset({INPUTS, INITIAL_VERSION, MANAGER})
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_HIDDEN: Final = frozenset({"data", "stringData"})


def outputs(inputs: PropertyMap, live: Mapping[str, Any], manager: str, initial: str = "") -> PropertyMap:
    """Return the state of a live object. Secret inputs are secret in it."""
    # The managers of the fields fill more than the object, and are only of use to the server.
    live_values = to_sdk(objects.with_metadata(live, managedFields=None) if objects.metadata(live) else live)
    values = {
        **live_values,
        INPUTS: inputs.values,
        INITIAL_VERSION: initial or objects.api_version(live) or objects.api_version(inputs.values),
        MANAGER: manager,
    }
    secrets = secret_paths(inputs.secrets, live_values)
    return PropertyMap(values, secrets | {(INPUTS, *path) for path in secret_paths(inputs.secrets, inputs.values)})


def secret_paths(secrets: frozenset[Path], values: Mapping[str, Any]) -> frozenset[Path]:
    """Return the secret paths of an object: those of the inputs, and all data of a Secret."""
    value = project(secrets, values)
    if objects.is_secret(values):
        value = frozenset(p for p in value if p[0] not in _HIDDEN) | {(k,) for k in _HIDDEN if k in values}
        if objects.annotation(values, _LAST_APPLIED):
            value |= {("metadata", "annotations", _LAST_APPLIED)}
    return value


def live_object(state: Mapping[str, Any]) -> Object:
    """Return the object in the state, with the API's keys."""
    return to_api({k: v for k, v in state.items() if k not in _OWN})


def state_inputs(state: Mapping[str, Any]) -> Object:
    value = state.get(INPUTS)
    return dict(value) if isinstance(value, Mapping) else {}


def field_manager(state: Mapping[str, Any]) -> str:
    value = state.get(MANAGER)
    return value if isinstance(value, str) else ""


def initial_version(state: Mapping[str, Any]) -> str:
    value = state.get(INITIAL_VERSION)
    return value if isinstance(value, str) else ""


def with_unknowns(response: Object, desired: Mapping[str, Any], *, new: bool) -> Object:
    """Return the response of a dry run, with the fields that the server will set as unknown."""
    chosen = ("uid", "creationTimestamp", "resourceVersion", "generation") if new else ("resourceVersion", "generation")
    out = objects.with_metadata(response, **dict.fromkeys(chosen, UNKNOWN))
    if new:
        out.pop("status", None)
        if (objects.kind(out), objects.api_version(out)) == ("Service", "v1"):
            out["spec"] = _service_with_unknowns(out, desired)
    return out


def _service_with_unknowns(response: Object, desired: Mapping[str, Any]) -> Object:
    spec = dict(response.get("spec") or {})
    for field in ("clusterIP", "clusterIPs", "healthCheckNodePort"):
        if (
            field in spec
            and get_field(desired, "spec", field) is None
            and get_field(desired, "spec", "clusterIP") is None
        ):
            spec[field] = UNKNOWN
    desired_ports = get_field(desired, "spec", "ports") or []
    ports = [dict(port) for port in spec.get("ports") or []]
    for index, port in enumerate(ports):
        if "nodePort" in port and not (index < len(desired_ports) and get_field(desired_ports[index], "nodePort")):
            port["nodePort"] = UNKNOWN
    return {**spec, "ports": ports} if ports else spec
