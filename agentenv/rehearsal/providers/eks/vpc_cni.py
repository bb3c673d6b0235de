"""The configuration of the vpc-cni add-on: the component's options as environment variables of the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from agentenv.rehearsal.providers.eks.inputs import UnsupportedInputs


@dataclass(frozen=True)
class Variable:
    """An environment variable, the inputs that set it (the first one present), and its default."""

    name: str
    inputs: tuple[str, ...]
    default: str | None = None


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
    # The official component sets the variable for customNetworkConfig too, and then overrides it with this one.
    Variable("AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", ("cniCustomNetworkCfg",), "false"),
    Variable("AWS_VPC_K8S_CNI_EXTERNALSNAT", ("externalSnat", "cniExternalSnat"), "false"),
)
INIT_ENVIRONMENT: Final = (Variable("DISABLE_TCP_EARLY_DEMUX", ("disableTcpEarlyDemux",), "false"),)


def configuration(args: Mapping[str, Any]) -> pulumi.Output[dict[str, Any]]:
    """Return the configuration values of the add-on: the program's, over those from the options."""
    if args.get("externalSnat") and args.get("cniExternalSnat"):
        raise UnsupportedInputs("vpcCniOptions: externalSnat and cniExternalSnat are both set; set one of them")
    if args.get("customNetworkConfig") and not args.get("cniCustomNetworkCfg"):
        raise UnsupportedInputs(
            "vpcCniOptions: customNetworkConfig has no effect in the official component, which sets its variable to "
            "false again; set cniCustomNetworkCfg"
        )
    names = sorted({name for row in (*ENVIRONMENT, *INIT_ENVIRONMENT) for name in row.inputs})
    options = {name: args.get(name) for name in (*names, "enableNetworkPolicy", "configurationValues")}
    return pulumi.Output.all(**options).apply(_merged)


def _merged(args: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(args["configurationValues"] or {})
    if "enableNetworkPolicy" not in values and args["enableNetworkPolicy"] is not None:
        values["enableNetworkPolicy"] = _as_text(args["enableNetworkPolicy"])
    init = values.get("init") if isinstance(values.get("init"), Mapping) else {}
    values["env"] = {**_variables(ENVIRONMENT, args), **_mapping(values.get("env"))}
    values["init"] = {
        **_mapping(init),
        "env": {**_variables(INIT_ENVIRONMENT, args), **_mapping(_mapping(init).get("env"))},
    }
    return values


def _variables(rows: tuple[Variable, ...], args: Mapping[str, Any]) -> dict[str, str]:
    values: dict[str, str] = {}
    for row in rows:
        # Zero is a value for warmEniTarget only; the official component ignores it elsewhere.
        present = [
            args[name] for name in row.inputs if args[name] or (name == "warmEniTarget" and args[name] is not None)
        ]
        if present:
            values[row.name] = _as_text(present[0])
        elif row.default is not None:
            values[row.name] = row.default
    return values


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
