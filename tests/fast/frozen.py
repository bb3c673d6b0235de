"""The names that others hold on to: a changed one replaces resources, or breaks a dashboard, an alarm or a caller.

`frozen.json` holds them as they were; `python -m tests.fast.frozen` writes it again, for a change that means to. It
covers what is in no other golden file: the API is in docs/reference/workspaces.openapi.json, settings are in
docs/reference/stack.schema.json, and whole resources are compared by `tests/graphs.py`.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from prometheus_client.metrics import MetricWrapperBase
from pulumi.provider.experimental.component import ComponentProvider

from agentenv.cli.main import COMMANDS
from agentenv.components.environment import Environment
from agentenv.components.package import EXPORTED_COMPONENTS
from agentenv.config import Settings, read
from agentenv.core.classes.names import cold_pool, storage_class
from agentenv.core.classes.plan import plans
from agentenv.core.classes.releases import releases_of
from agentenv.core.ledger import table as ledger_table
from agentenv.core.metering.rules import rules
from agentenv.core.metering.tariff import Tariff
from agentenv.core.plan import plan
from agentenv.policies.rules.registry import all_rules
from agentenv.service.loops import leader_election as leading
from agentenv.service.telemetry.metrics import Metrics
from tests.fast.components.graph import CALLER, Graph, registered
from tests.graphs import stack_names

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_suffix(".json")
ROOMS = ("agentenv.components", "agentenv.config", "agentenv.core", "agentenv.policies", "agentenv.service")
BUILT = ("local", "prod")  # whose resources are registered here, which takes seconds; together they have every kind
_LABEL = re.compile(r"([a-z0-9-]+\.)*(users\.io|agents\.x-k8s\.io)/[a-z0-9./-]*")
_VARIABLE = re.compile(r"\bAGENTENV_[A-Z_]+")


def stack_settings(stack: str) -> Settings:
    """Return the settings of a stack file of this repository."""
    text = (ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8")
    return read(yaml.safe_load(text)["config"], stack)


def resources(settings: Settings) -> Graph:
    """Return what the program registers with these settings."""
    may_deploy = [*settings.cluster.deployers, *settings.cluster.admins]
    return registered(
        lambda: Environment("agents", plan(settings)),
        zones=[f"{settings.region}{letter}" for letter in "abcdef"],
        caller=may_deploy[0] if may_deploy else CALLER,
    )


def names_of_resources(graph: Graph) -> list[str]:
    """Return each resource as its URN's last words, its name in AWS or Kubernetes, and what guards its data."""
    return sorted(
        " ".join(
            filter(
                None,
                (
                    resource.urn.partition("::agent-environment::")[2],
                    _physical_name(resource.inputs),
                    "protect" if resource.protect else "",
                    "retain" if resource.retain else "",
                    *(f"ignores:{name}" for name in resource.ignored),
                ),
            )
        )
        for resource in graph.resources
    )


def _physical_name(inputs: dict[str, Any]) -> str:
    metadata = inputs.get("metadata") or {}
    named = metadata.get("name") or next((inputs[key] for key in ("name", "bucket", "namePrefix") if key in inputs), "")
    space = metadata.get("namespace", "")
    return f"={space}/{named}" if space else f"={named}" if named else ""


def classes(settings: Settings) -> dict[str, Any]:
    """Return the release hash and the names of templates, pools and storage classes of every class."""
    return {
        plan.name: {
            release.channel: {
                "hash": release.hash,
                "templates": list(release.names),
                "cold": [cold_pool(template) for template in release.names],
                "storage": [storage_class(plan.name, shard) for shard in release.shards],
            }
            for release in releases_of(plan)
        }
        for plan in plans(settings)
    }


def modules() -> Iterator[ModuleType]:
    """Import and yield every module of the rooms but their `__main__`."""
    for room in ROOMS:
        package = importlib.import_module(room)
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{room}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def constants() -> Iterator[str]:
    """Yield every text that a module holds by name, also within a tuple, a set or a mapping."""

    def texts(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple | list | set | frozenset):
            for inner in value:
                yield from texts(inner)
        elif isinstance(value, dict):
            yield from texts([*value, *value.values()])

    for module in modules():
        for value in list(vars(module).values()):
            yield from texts(value)


def metrics() -> list[str]:
    """Return the metrics of a replica, each with its labels."""
    found = (collector for collector in vars(Metrics()).values() if isinstance(collector, MetricWrapperBase))
    return sorted(f"{metric._name}{{{','.join(metric._labelnames)}}}" for metric in found)


def variables() -> list[str]:
    """Return the environment variables of the project's own that its modules name."""
    rooms = ("agentenv", "components", "policies")
    paths = (path for room in rooms for path in (ROOT / room).rglob("*.py"))
    return sorted({name for path in paths for name in _VARIABLE.findall(path.read_text(encoding="utf-8"))})


def schema() -> dict[str, Any]:
    """Return the names that other languages see: components and types with their properties."""
    found = json.loads(ComponentProvider(EXPORTED_COMPONENTS, "agent-environment").schema or "")
    return {
        "components": {
            token: {group: sorted(resource.get(group, ())) for group in ("inputProperties", "properties")}
            for token, resource in found["resources"].items()
        },
        "types": {token: sorted(type_.get("properties", ())) for token, type_ in found["types"].items()},
    }


def frozen() -> dict[str, Any]:
    """Return every frozen name, by what it is the name of."""
    stacks = {stack: stack_settings(stack) for stack in stack_names(ROOT)}
    program = (ROOT / "stacks" / "__main__.py").read_text(encoding="utf-8")
    texts = set(constants())
    found: dict[str, Any] = {
        "classes": {stack: classes(settings) for stack, settings in stacks.items()},
        "resources": {stack: names_of_resources(resources(stacks[stack])) for stack in BUILT},
        "outputs": re.findall(r'pulumi\.export\("(\w+)"', program),
        "schema": schema(),
        "rules": [rule.id for rule in all_rules()],
        "labels": sorted(text for text in texts if _LABEL.fullmatch(text)),
        "variables": variables(),
        "metrics": metrics(),
        "recording rules": sorted(
            {
                rule.record
                for rule in rules(Tariff(fixed={"nat": Decimal(1)}, monthly_budget=Decimal(1), per_user_cap=Decimal(1)))
            }
        ),
        "ledger table": ledger_table.create_table("t"),
        "leader lease": leading.NAME,
        "commands": [command.name for command in COMMANDS],
    }
    return json.loads(json.dumps(found))


def as_text(found: dict[str, Any]) -> str:
    """Return the names as the golden file has them."""
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(as_text(frozen()), encoding="utf-8")
    sys.stdout.write(f"wrote {FILE}\n")
