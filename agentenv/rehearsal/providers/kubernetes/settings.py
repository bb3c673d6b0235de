"""The provider's configuration: its checks, its sources, and the changes that replace all resources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import kubeconfig
from agentenv.rehearsal.providers.kubernetes.replacing import Mutability
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN

Problem = tuple[str, str]

PREFIX: Final = "kubernetes:config:"
CLUSTER_SETTINGS: Final = ("kubeconfig", "context", "cluster")
# A setting, and the environment variable that stands in for it.
ENVIRONMENT_VARIABLES: Final = {
    "deleteUnreachable": "PULUMI_K8S_DELETE_UNREACHABLE",
    "skipUpdateUnreachable": "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE",
    "enableServerSideApply": "PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY",
    "enablePatchForce": "PULUMI_K8S_ENABLE_PATCH_FORCE",
    "upsertExistingObjects": "PULUMI_K8S_UPSERT_EXISTING_OBJECTS",
    "enableConfigMapMutable": "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE",
    "enableSecretMutable": "PULUMI_K8S_ENABLE_SECRET_MUTABLE",
    "suppressDeprecationWarnings": "PULUMI_K8S_SUPPRESS_DEPRECATION_WARNINGS",
    "suppressHelmHookWarnings": "PULUMI_K8S_SUPPRESS_HELM_HOOK_WARNINGS",
}
ENGINE_SETTINGS: Final = frozenset({"version", "__internal"})
ON_BY_DEFAULT: Final = frozenset({"enableServerSideApply"})


@dataclass(frozen=True)
class Settings:
    """The provider's configuration."""

    kubeconfig: str | Mapping[str, Any] | None = field(default=None, repr=False)
    context: str = ""
    cluster: str = ""
    namespace: str = ""
    delete_unreachable: bool = False
    skip_update_unreachable: bool = False
    patch_force: bool = False
    upsert: bool = False
    mutability: Mutability = field(default_factory=Mutability)
    hook_warnings: bool = True
    known: bool = True  # whether it is known yet which cluster is meant
    timeout: float = 30.0


def check(values: Mapping[str, Any], environment: Mapping[str, str]) -> list[Problem]:
    """Return the problems of a configuration."""
    problems: list[Problem] = []
    if not _on("enableServerSideApply", values, environment):
        problems.append(
            ("enableServerSideApply", "the stand-in provider only writes by server-side apply; leave this setting out")
        )
    problems += [
        (name, "the stand-in provider does not render manifests to files; leave this setting out")
        for name in ("renderYamlToDirectory", "alwaysRender")
        if _value(values, name) not in {None, "", "false", False}
    ]
    if _on("strictMode", values, {}):
        problems += [
            (name, "strict mode asks for this setting") for name in ("kubeconfig", "context") if not values.get(name)
        ]
    return problems


def settings(values: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    client = _json(_value(values, "kubeClientSettings"))
    timeout = client.get("timeout") or environment.get("PULUMI_K8S_CLIENT_TIMEOUT") or 30
    return Settings(
        kubeconfig=_value(values, "kubeconfig") or None,
        context=str(_value(values, "context") or ""),
        cluster=str(_value(values, "cluster") or ""),
        namespace=str(_value(values, "namespace") or ""),
        delete_unreachable=_on("deleteUnreachable", values, environment),
        skip_update_unreachable=_on("skipUpdateUnreachable", values, environment),
        patch_force=_on("enablePatchForce", values, environment),
        upsert=_on("upsertExistingObjects", values, environment),
        mutability=Mutability(
            config_maps=_on("enableConfigMapMutable", values, environment),
            secrets=_on("enableSecretMutable", values, environment),
        ),
        hook_warnings=not _on("suppressHelmHookWarnings", values, environment),
        timeout=float(timeout),
        known=not any(values.get(name) is UNKNOWN for name in CLUSTER_SETTINGS),
    )


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the changed settings, and those that select another cluster, which replaces all resources.

    A `clusterIdentifier` decides that; else an unknown kubeconfig, or one with another cluster entry.
    """
    keys = {*old, *new} - ENGINE_SETTINGS
    differs = sorted(k for k in keys if old.get(k) != new.get(k) or new.get(k) is UNKNOWN)
    if not differs:
        return [], []
    before, after = old.get("clusterIdentifier"), new.get("clusterIdentifier")
    if before and after:
        return differs, ["clusterIdentifier"] if before != after else []
    unknown = [k for k in CLUSTER_SETTINGS if new.get(k) is UNKNOWN]
    if unknown:
        return differs, unknown[:1]
    old_cluster, new_cluster = _active(old), _active(new)
    if old_cluster is not None and new_cluster is not None and old_cluster != new_cluster:
        return differs, [k for k in CLUSTER_SETTINGS if k in differs]
    return differs, []


def _active(values: Mapping[str, Any]) -> Mapping[str, Any] | None:
    contents = values.get("kubeconfig")
    if not contents or contents is UNKNOWN:
        return None
    try:
        loaded = kubeconfig.load(contents, {})
    except kubeconfig.InvalidKubeconfig:
        return None
    return loaded.active_cluster(str(values.get("context") or ""), str(values.get("cluster") or ""))


def _value(values: Mapping[str, Any], name: str) -> Any:
    value = values.get(name)
    return None if value is UNKNOWN else value


def _on(name: str, values: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Return a boolean setting: JSON text from the SDK, a boolean from a configuration file."""
    value = _value(values, name)
    if value is None:
        value = environment.get(ENVIRONMENT_VARIABLES.get(name, ""))
    if value is None:
        return name in ON_BY_DEFAULT
    return value is True or str(value).lower() == "true"


def _json(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}
