"""What a replica is told: read once, when it starts, from its command line, and from one file with the settings.

The settings are those of the environment, in the form in which a stack file has them under `config`: classes, budgets
and everything the service may have to know of them follow from there, as they do for components. The command line has
what only a deployment knows: addresses, ids of what was made, and this replica's own name.
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
    """All that one replica knows from its start to its end."""

    settings: Settings = field(repr=False)
    # The paths of settings that this version does not know: the program that wrote them may be newer
    ignored: tuple[str, ...] = field(default=(), kw_only=True)
    replica: str  # its name among the others: the pod's
    namespace: str = "workspace-service"
    host: str = "0.0.0.0"  # noqa: S104 - in a pod; the network policy says who comes in
    port: int = 8080
    metrics_port: int = 9090
    kubeconfig: Path | None = None  # as the pod's own account where there is none
    cluster_name: str = ""
    file_systems: tuple[str, ...] = ()  # their ids, by shard
    vpc_cidrs: tuple[str, ...] = ()  # where the VPC stood already; those of the settings else
    service_cidr: str | None = None
    ledger_table: str | None = None
    # What sandboxes' tokens are traded for: the ARN of a role by class, of classes whose identity is `exchange`.
    exchange_roles: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets_prefix: str | None = None  # what the ARNs of owners' secrets begin with
    prometheus: str | None = None  # where usage is asked for
    traces: str | None = None  # where traces are sent: an OTLP endpoint over HTTP
    loops: bool = True  # whether it takes part in the election of who runs the loops

    @property
    def region(self) -> str:
        """The AWS region."""
        return self.settings.region


class ConfigurationError(Exception):
    """What is wrong with the command line or the settings, in words for whoever reads the pod's log."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m agentenv.service", description=__doc__, allow_abbrev=False)
    told = made.add_argument
    told("--settings", type=Path, required=True, metavar="FILE", help="JSON: {environment, config}")
    told("--host", default=Configuration.host, help="the address to listen on")
    told("--port", type=_port, default=Configuration.port, help="where the API is")
    told("--metrics-port", type=_port, default=Configuration.metrics_port, help="where Prometheus reads")
    told("--kubeconfig", type=Path, metavar="FILE", help="the way to the API server; KUBECONFIG, else the pod's own")
    told("--namespace", default=Configuration.namespace, help="where the service's own objects are")
    told("--replica", metavar="NAME", help="its name among the others; POD_NAME, else the host's")
    told("--cluster-name", default="", metavar="NAME", help="the EKS cluster")
    told("--file-system", action="append", default=[], metavar="ID", help="a file system of homes, by shard")
    told("--vpc-cidr", action="append", default=[], metavar="RANGE", help="a range of a VPC that stood already")
    told("--service-cidr", metavar="RANGE", help="the range of services of a cluster that stood already")
    told("--ledger-table", metavar="NAME", help="the DynamoDB table of the ledger")
    told(
        "--exchange-role",
        action="append",
        default=[],
        type=_role,
        metavar="CLASS=ARN",
        help="the role that tokens of a class's sandboxes are traded for",
    )
    told("--secrets-prefix", metavar="ARN", help="how the ARNs of owners' secrets begin")
    told("--prometheus", metavar="URL", help="where usage is asked for")
    told("--traces", metavar="URL", help="an OTLP endpoint over HTTP; OTEL_EXPORTER_OTLP_ENDPOINT, else no traces")
    told("--no-loops", action="store_true", help="answer requests only, and never lead")
    return made


def parse_configuration(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Configuration:
    """The configuration that the command line and its settings file say; `ConfigurationError` where there is none."""
    around = os.environ if environment is None else environment
    said = parser().parse_args(arguments)
    settings, ignored = settings_of(said.settings)
    kubeconfig = said.kubeconfig or (Path(around["KUBECONFIG"]) if around.get("KUBECONFIG") else None)
    return Configuration(
        settings=settings,
        ignored=ignored,
        replica=said.replica or around.get("POD_NAME") or socket.gethostname(),
        namespace=said.namespace,
        host=said.host,
        port=said.port,
        metrics_port=said.metrics_port,
        kubeconfig=kubeconfig,
        cluster_name=said.cluster_name,
        file_systems=tuple(said.file_system),
        vpc_cidrs=tuple(said.vpc_cidr),
        service_cidr=said.service_cidr,
        ledger_table=said.ledger_table,
        exchange_roles=dict(said.exchange_role),
        secrets_prefix=said.secrets_prefix,
        prometheus=said.prometheus,
        traces=said.traces or around.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
        loops=not said.no_loops,
    )


def settings_of(file: Path) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings in a file, and the paths of those that are not known; all mistakes are raised at once."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        config, environment = said["config"], said["environment"]
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise ConfigurationError(f"{file} is no settings file: {failure!r}") from failure
    try:
        return read_known(config, environment)
    except Mistakes as failure:
        raise ConfigurationError(f"the settings in {file} have mistakes:\n{failure}") from failure


def _role(text: str) -> tuple[str, str]:
    name, equals, arn = text.partition("=")
    if not (name and equals and arn.startswith("arn:")):
        raise argparse.ArgumentTypeError(f"{text} is no CLASS=ARN")
    return name, arn


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return number
