"""The configuration of a replica, read once at start from the command line and one settings file.

The settings are the environment's, in the form of a stack file's `config`: classes and budgets follow from them as they
do for components. The command line holds what only a deployment knows: addresses, ids of created resources, and the
replica's name.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentenv.config import Mistakes, Settings
from agentenv.config.reader import read_known


@dataclass(frozen=True)
class Configuration:
    """The configuration of one replica; it does not change while the replica runs."""

    settings: Settings = field(repr=False)
    # The paths of settings that this version does not know: the program that wrote them may be newer
    ignored: tuple[str, ...] = field(default=(), kw_only=True)
    replica: str  # its name among the others: the pod's
    namespace: str = "workspace-service"
    host: str = "0.0.0.0"  # noqa: S104 - in a pod; a network policy restricts the callers
    port: int = 8080
    metrics_port: int = 9090
    authorizer_port: int | None = None  # for the gateway; None: it is not served
    kubeconfig: Path | None = None  # the pod's own service account where there is none
    cluster_name: str = ""
    file_systems: tuple[str, ...] = ()  # their ids, by shard
    vpc_cidrs: tuple[str, ...] = ()  # of an existing VPC; otherwise those of the settings
    service_cidr: str | None = None
    ledger_table: str | None = None
    access_table: str | None = None
    # The ARN of the role that sandboxes get credentials of, by class, for classes whose identity is `exchange`
    exchange_roles: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets_prefix: str | None = None  # of the ARNs of owners' secrets
    target_group: str | None = None  # the ARN of the load balancer's target group, for the pods of the gateway
    prometheus: str | None = None  # the URL that usage is queried from
    traces: str | None = None  # where traces are sent: an OTLP endpoint over HTTP
    loops: bool = False  # whether it runs the loops instead of the API

    @property
    def region(self) -> str:
        """Return the AWS region."""
        return self.settings.region


class ConfigurationError(Exception):
    """The command line or the settings are invalid; the message is for the pod's log."""


def parser() -> argparse.ArgumentParser:
    """Return the command-line parser."""
    command_line = argparse.ArgumentParser(prog="python -m agentenv.service", description=__doc__, allow_abbrev=False)
    add = command_line.add_argument
    add("--settings", type=Path, required=True, metavar="FILE", help="JSON: {environment, config}")
    add("--host", default=Configuration.host, help="the address to listen on")
    add("--port", type=_port, default=Configuration.port, help="the port of the API")
    add("--metrics-port", type=_port, default=Configuration.metrics_port, help="the port that Prometheus scrapes")
    add("--authorizer-port", type=_port, help="the port of the gateway's authorization; default: none")
    add("--target-group", metavar="ARN", help="the load balancer's target group, for the pods of the gateway")
    kubeconfig = "how to connect to the API server; default: KUBECONFIG, else the pod's service account"
    add("--kubeconfig", type=Path, metavar="FILE", help=kubeconfig)
    add("--namespace", default=Configuration.namespace, help="the namespace of the service's own objects")
    add("--replica", metavar="NAME", help="the replica's name; default: POD_NAME, else the host name")
    add("--cluster-name", default="", metavar="NAME", help="the EKS cluster")
    add("--file-system", action="append", default=[], metavar="ID", help="a file system of homes, by shard")
    add("--vpc-cidr", action="append", default=[], metavar="RANGE", help="a CIDR range of an existing VPC")
    add("--service-cidr", metavar="RANGE", help="the service range of an existing cluster")
    add("--ledger-table", metavar="NAME", help="the DynamoDB table of the ledger")
    add("--access-table", metavar="NAME", help="the DynamoDB table of API keys, links and sessions")
    add(
        "--exchange-role",
        action="append",
        default=[],
        type=_role,
        metavar="CLASS=ARN",
        help="the role whose credentials a class's sandboxes get for their tokens",
    )
    add("--secrets-prefix", metavar="ARN", help="the common prefix of the ARNs of owners' secrets")
    add("--prometheus", metavar="URL", help="where usage is queried")
    traces = "an OTLP endpoint over HTTP; default: OTEL_EXPORTER_OTLP_ENDPOINT, else no traces"
    add("--traces", metavar="URL", help=traces)
    add("--loops", action="store_true", help="run the loops while elected, instead of serving the API")
    return command_line


def parse_configuration(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Configuration:
    """Return the configuration from the command line; raise `ConfigurationError` where it is invalid."""
    variables = os.environ if environment is None else environment
    options = parser().parse_args(arguments)
    settings, ignored = settings_of(options.settings)
    kubeconfig = options.kubeconfig or (Path(variables["KUBECONFIG"]) if variables.get("KUBECONFIG") else None)
    return Configuration(
        settings=settings,
        ignored=ignored,
        replica=options.replica or variables.get("POD_NAME") or socket.gethostname(),
        namespace=options.namespace,
        host=options.host,
        port=options.port,
        metrics_port=options.metrics_port,
        authorizer_port=options.authorizer_port,
        kubeconfig=kubeconfig,
        cluster_name=options.cluster_name,
        file_systems=tuple(options.file_system),
        vpc_cidrs=tuple(options.vpc_cidr),
        service_cidr=options.service_cidr,
        ledger_table=options.ledger_table,
        access_table=options.access_table,
        exchange_roles=dict(options.exchange_role),
        secrets_prefix=options.secrets_prefix,
        target_group=options.target_group,
        prometheus=options.prometheus,
        traces=options.traces or variables.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
        loops=options.loops,
    )


def settings_of(file: Path) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings in a file; all their mistakes are reported at once."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        config, environment = document["config"], document["environment"]
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise ConfigurationError(f"{file} is not a settings file: {failure!r}") from failure
    try:
        return read_known(config, environment)
    except Mistakes as failure:
        raise ConfigurationError(f"the settings in {file} have mistakes:\n{failure}") from failure


def _role(text: str) -> tuple[str, str]:
    name, equals, arn = text.partition("=")
    if not (name and equals and arn.startswith("arn:")):
        raise argparse.ArgumentTypeError(f"{text} is not CLASS=ARN")
    return name, arn


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return number
