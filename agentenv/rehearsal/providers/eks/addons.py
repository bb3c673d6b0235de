"""Add-ons: the default add-ons of a cluster, and the components `Addon` and `VpcCniAddon`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi

from agentenv.rehearsal.providers.eks import vpc_cni
from agentenv.rehearsal.providers.eks.children import Child, ChildFactory, existing_resource
from agentenv.rehearsal.providers.eks.kubeconfig import to_json
from agentenv.rehearsal.providers.eks.resource_references import Reference, output_resource_urn

_ADDON: Final = "aws:eks/addon:Addon"
_SAME_INPUTS: Final = (
    "addonName",
    "addonVersion",
    "preserve",
    "resolveConflictsOnCreate",
    "resolveConflictsOnUpdate",
    "serviceAccountRoleArn",
    "tags",
)


class Addon(pulumi.ComponentResource):
    """The component `eks:index:Addon`: an add-on of an existing cluster."""

    def __init__(
        self,
        name: str,
        args: Mapping[str, Any],
        cluster: Reference,
        versions: Mapping[str, str],
        options: pulumi.ResourceOptions,
    ) -> None:
        with_parent = pulumi.ResourceOptions(parent=cluster.resource())
        super().__init__("eks:index:Addon", name, {}, pulumi.ResourceOptions.merge(options, with_parent))
        inputs = {key: args.get(key) for key in _SAME_INPUTS}
        configuration = args.get("configurationValues")
        addon = ChildFactory(self, versions).child(
            _ADDON,
            name,
            {
                **inputs,
                "clusterName": _name_of(cluster),
                "configurationValues": _json_output(configuration) if configuration is not None else None,
            },
        )
        self.outputs = {"addon": addon}
        self.register_outputs({})


class VpcCniAddon(pulumi.ComponentResource):
    """The component `eks:index:VpcCniAddon`, which sets its options as environment variables."""

    def __init__(
        self, name: str, args: Mapping[str, Any], versions: Mapping[str, str], options: pulumi.ResourceOptions
    ) -> None:
        super().__init__("eks:index:VpcCniAddon", name, {}, options)
        factory = ChildFactory(self, versions)
        version = args.get("addonVersion")
        addon = factory.child(
            _ADDON,
            name,
            {
                "clusterName": args["clusterName"],
                "addonVersion": version or newest_version(factory, "vpc-cni", args.get("clusterVersion")),
                "addonName": "vpc-cni",
                **_conflicts(args),
                "preserve": True,
                "configurationValues": vpc_cni.configuration(args).apply(lambda values: to_json(values, ordered=True)),
                "serviceAccountRoleArn": args.get("serviceAccountRoleArn"),
                "tags": args.get("tags"),
            },
        )
        self.outputs = {"addon": addon}
        self.register_outputs(self.outputs)


def default_addon(
    factory: ChildFactory,
    name: str,
    addon: str,
    *,
    cluster: Child,
    options: Mapping[str, Any],
    tags: Any,
    configuration: Any = None,
    after: Sequence[pulumi.Resource] = (),
) -> Child:
    """Register a default add-on of a cluster. It is preserved when the stack is destroyed, as in EKS."""
    return factory.child(
        _ADDON,
        f"{name}-{addon}",
        {
            "clusterName": cluster.output("name"),
            "addonName": addon,
            "preserve": True,
            "tags": tags,
            **_conflicts(options),
            "addonVersion": options.get("version") or newest_version(factory, addon, cluster.output("version")),
            "configurationValues": _json_output(configuration, ordered=True) if configuration is not None else None,
        },
        after=after,
    )


def newest_version(factory: ChildFactory, addon: str, version: Any) -> pulumi.Output[str]:
    """Return the newest version of an add-on for a Kubernetes version."""
    arguments = {"addonName": addon, "kubernetesVersion": version, "mostRecent": True}
    return factory.invoke("aws:eks/getAddonVersion:getAddonVersion", arguments).apply(
        lambda response: response["version"]
    )


def _conflicts(args: Mapping[str, Any]) -> dict[str, Any]:
    return {key: args.get(key) or "OVERWRITE" for key in ("resolveConflictsOnCreate", "resolveConflictsOnUpdate")}


def _json_output(configuration: Any, *, ordered: bool = True) -> pulumi.Output[str]:
    return pulumi.Output.from_input(configuration).apply(lambda values: to_json(values, ordered=ordered))


def _name_of(cluster: Reference) -> pulumi.Output[Any]:
    """Return the name of the EKS cluster inside the component, as an output that depends on the cluster."""

    async def name(_: Any) -> pulumi.Output[Any]:
        return existing_resource(await output_resource_urn(cluster.urn, "eksCluster"), ("name",)).output("name")

    return pulumi.Output.from_input(None).apply(name)
