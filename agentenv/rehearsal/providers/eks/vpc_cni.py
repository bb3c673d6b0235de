"""The configuration of the vpc-cni add-on: settings by the component's names, as the plugin's environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from agentenv.rehearsal.providers.eks.inputs import Refused


@dataclass(frozen=True)
class Variable:
    """An environment variable, the inputs that set it (the first that is given), and what it is without them."""

    name: str
    inputs: tuple[str, ...]
    otherwise: str | None = None


ENVIRONMENT: Final = (
    Variable("AWS_VPC_CNI_NODE_PORT_SUPPORT", ("nodePortSupport",)),
    Variable("WARM_ENI_TARGET", ("warmEniTarget",), "1"),
    Variable("WARM_IP_TARGET", ("warmIpTarget",)),
    Variable("WARM_PREFIX_TARGET", ("warmPrefixTarget",)),
    Variable("ENABLE_PREFIX_DELEGATION", ("enablePrefixDelegation",)),
    Variable("AWS_VPC_K8S_CNI_LOGLEVEL", ("logLevel",), "DEBUG"),
    Variable("AWS_VPC_K8S_CNI_LOG_FILE", ("logFile",), "/host/var/log/aws-routed-eni/ipamd.log"),
    Variable("AWS_VPC_K8S_CNI_VETHPREFIX", ("vethPrefix",), "eni"),
    Variable("AWS_VPC_ENI_MTU", ("eniMtu",), "9001"),
    Variable("ENI_CONFIG_LABEL_DEF", ("eniConfigLabelDef",)),
    Variable("AWS_VPC_K8S_PLUGIN_LOG_LEVEL", (), "DEBUG"),
    Variable("AWS_VPC_K8S_PLUGIN_LOG_FILE", (), "/var/log/aws-routed-eni/plugin.log"),
    Variable("ENABLE_POD_ENI", ("enablePodEni",), "false"),
    Variable("AWS_VPC_K8S_CNI_CONFIGURE_RPFILTER", ("cniConfigureRpfilter",)),
    # The official component sets customNetworkConfig's variable too, and then this one over it.
    Variable("AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", ("cniCustomNetworkCfg",), "false"),
    Variable("AWS_VPC_K8S_CNI_EXTERNALSNAT", ("externalSnat", "cniExternalSnat"), "false"),
)
INIT_ENVIRONMENT: Final = (Variable("DISABLE_TCP_EARLY_DEMUX", ("disableTcpEarlyDemux",), "false"),)


def configuration(given: Mapping[str, Any]) -> pulumi.Output[dict[str, Any]]:
    """The add-on's configuration values: those that were given, over those that the settings make."""
    if given.get("externalSnat") and given.get("cniExternalSnat"):
        raise Refused("vpcCniOptions: externalSnat and cniExternalSnat are both set; set one of them")
    if given.get("customNetworkConfig") and not given.get("cniCustomNetworkCfg"):
        raise Refused(
            "vpcCniOptions: customNetworkConfig has no effect in the official component, which sets its variable to "
            "false again; set cniCustomNetworkCfg"
        )
    names = sorted({one for row in (*ENVIRONMENT, *INIT_ENVIRONMENT) for one in row.inputs})
    wanted = {name: given.get(name) for name in (*names, "enableNetworkPolicy", "configurationValues")}
    return pulumi.Output.all(**wanted).apply(_merged)


def _merged(given: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(given["configurationValues"] or {})
    if "enableNetworkPolicy" not in made and given["enableNetworkPolicy"] is not None:
        made["enableNetworkPolicy"] = _spelled(given["enableNetworkPolicy"])
    first = made.get("init") if isinstance(made.get("init"), Mapping) else {}
    made["env"] = {**_variables(ENVIRONMENT, given), **_mapping(made.get("env"))}
    made["init"] = {
        **_mapping(first),
        "env": {**_variables(INIT_ENVIRONMENT, given), **_mapping(_mapping(first).get("env"))},
    }
    return made


def _variables(rows: tuple[Variable, ...], given: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in rows:
        # Nought counts for the number of spare interfaces only; the official component takes it for nothing elsewhere.
        said = [
            given[name] for name in row.inputs if given[name] or (name == "warmEniTarget" and given[name] is not None)
        ]
        if said:
            found[row.name] = _spelled(said[0])
        elif row.otherwise is not None:
            found[row.name] = row.otherwise
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
