"""Add-ons: those that a cluster gets of itself, and the components `Addon` and `VpcCniAddon`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi

from agentenv.rehearsal.providers.eks import vpc_cni as cni
from agentenv.rehearsal.providers.eks.children import Child, Maker, found_again
from agentenv.rehearsal.providers.eks.kubeconfig import text
from agentenv.rehearsal.providers.eks.resource_references import Reference, inner

_ADDON: Final = "aws:eks/addon:Addon"
_PASSED_ON: Final = (
    "addonName",
    "addonVersion",
    "preserve",
    "resolveConflictsOnCreate",
    "resolveConflictsOnUpdate",
    "serviceAccountRoleArn",
    "tags",
)


class Addon(pulumi.ComponentResource):
    """The component `eks:index:Addon`: an add-on under the cluster that it is given."""

    def __init__(
        self,
        name: str,
        given: Mapping[str, Any],
        cluster: Reference,
        versions: Mapping[str, str],
        options: pulumi.ResourceOptions,
    ) -> None:
        under = pulumi.ResourceOptions(parent=cluster.resource())
        super().__init__("eks:index:Addon", name, {}, pulumi.ResourceOptions.merge(options, under))
        inputs = {key: given.get(key) for key in _PASSED_ON}
        configuration = given.get("configurationValues")
        made = Maker(self, versions).child(
            _ADDON,
            name,
            {
                **inputs,
                "clusterName": _name_of(cluster),
                "configurationValues": _text(configuration) if configuration is not None else None,
            },
        )
        self.outputs = {"addon": made}
        self.register_outputs({})


class VpcCniAddon(pulumi.ComponentResource):
    """The component `eks:index:VpcCniAddon`: the add-on with its settings as environment variables."""

    def __init__(
        self, name: str, given: Mapping[str, Any], versions: Mapping[str, str], options: pulumi.ResourceOptions
    ) -> None:
        super().__init__("eks:index:VpcCniAddon", name, {}, options)
        maker = Maker(self, versions)
        version = given.get("addonVersion")
        made = maker.child(
            _ADDON,
            name,
            {
                "clusterName": given["clusterName"],
                "addonVersion": version or newest(maker, "vpc-cni", given.get("clusterVersion")),
                "addonName": "vpc-cni",
                **_conflicts(given),
                "preserve": True,
                "configurationValues": cni.configuration(given).apply(lambda found: text(found, ordered=True)),
                "serviceAccountRoleArn": given.get("serviceAccountRoleArn"),
                "tags": given.get("tags"),
            },
        )
        self.outputs = {"addon": made}
        self.register_outputs(self.outputs)


def own_addon(
    maker: Maker,
    name: str,
    addon: str,
    *,
    cluster: Child,
    options: Mapping[str, Any],
    tags: Any,
    configuration: Any = None,
    after: Sequence[pulumi.Resource] = (),
) -> Child:
    """An add-on that a cluster gets unless it is told not to: kept when the stack goes, as EKS would keep it."""
    return maker.child(
        _ADDON,
        f"{name}-{addon}",
        {
            "clusterName": cluster.out("name"),
            "addonName": addon,
            "preserve": True,
            "tags": tags,
            **_conflicts(options),
            "addonVersion": options.get("version") or newest(maker, addon, cluster.out("version")),
            "configurationValues": _text(configuration, ordered=True) if configuration is not None else None,
        },
        after=after,
    )


def newest(maker: Maker, addon: str, version: Any) -> pulumi.Output[str]:
    """The newest build of an add-on for a cluster version."""
    asked = {"addonName": addon, "kubernetesVersion": version, "mostRecent": True}
    return maker.ask("aws:eks/getAddonVersion:getAddonVersion", asked).apply(lambda found: found["version"])


def _conflicts(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: given.get(key) or "OVERWRITE" for key in ("resolveConflictsOnCreate", "resolveConflictsOnUpdate")}


def _text(configuration: Any, *, ordered: bool = True) -> pulumi.Output[str]:
    return pulumi.Output.from_input(configuration).apply(lambda found: text(found, ordered=ordered))


def _name_of(cluster: Reference) -> pulumi.Output[Any]:
    """The name of the EKS cluster inside the component, with the cluster itself as what it depends on."""

    async def name(_: Any) -> pulumi.Output[Any]:
        return found_again(await inner(cluster.urn, "eksCluster"), ("name",)).out("name")

    return pulumi.Output.from_input(None).apply(name)
