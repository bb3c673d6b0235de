"""A recording of the outputs of resources and functions that the components read, at the SDK's getters."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pulumi
import pytest

from tests.fast.components.existing import existing_resources
from tests.fast.components.gateway.test_gateway import balancer, envoy
from tests.fast.components.graph import Graph, registered
from tests.fast.components.node_shapes import capacity
from tests.fast.components.sandboxes.test_sandbox_class import POLICY, VETTED
from tests.fast.components.sandboxes.test_sandbox_class import build_graph as sandbox_class
from tests.fast.components.service.test_workspace_service import CERTIFICATE, service
from tests.fast.components.shapes import ROUTED, network, storage
from tests.fast.components.storage.test_home_metering import metering
from tests.fast.components.test_adopted import cluster as adopted_cluster
from tests.fast.components.test_adopted import network as adopted_network
from tests.fast.components.test_adopted import storage as adopted_storage
from tests.fast.components.test_environment import environment

EXPORTED_COMPONENTS = Path(__file__).parents[3] / "components"


@dataclass(frozen=True)
class Read:
    """One output of a class of the SDK, by the name that the provider has for it."""

    of: type
    output: str
    optional: bool

    @property
    def token(self) -> str:
        """The type of a resource, the token of a function, or the class of a nested object."""
        named = getattr(self.of, "pulumi_type", None)
        return named or function_token(self.of) or self.of.__name__.removesuffix("Result")


def snake(name: str) -> str:
    """A name in the spelling of Python."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def function_token(result: type) -> str | None:
    """The token of the function that answers with objects of that class."""
    package, _, module = result.__module__.removeprefix("pulumi_aws.").rpartition(".")
    found = re.fullmatch(r"(?:Awaitable)?(Get\w+)Result", result.__name__)
    if found is None or snake(found[1]) != module:
        return None
    name = found[1][0].lower() + found[1][1:]
    return f"aws:{package or 'index'}/{name}:{name}"


def _read(of: type, name: str) -> Read:
    getter = next(vars(class_)[name] for class_ in of.__mro__ if name in vars(class_)).fget
    kind: Any = get_type_hints(getter)["return"]
    if getattr(kind, "__origin__", None) is pulumi.Output:
        (kind,) = get_args(kind)
    return Read(of, getattr(getter, "_pulumi_name", name), type(None) in get_args(kind))


@contextmanager
def recording() -> Iterator[set[Read]]:
    """Record what is read of AWS and EKS resources, functions and their parts, while the block runs."""
    found: set[Read] = set()
    real = pulumi.get

    def get(self: object, name: str) -> Any:
        of = type(self)
        # The SDK copies all of an answer by itself, but not by its getters.
        by_getter = sys._getframe(1).f_code.co_name == name
        if by_getter and of.__module__.startswith(("pulumi_aws", "pulumi_eks")) and "_inputs" not in of.__module__:
            found.add(_read(of, name))
        return real(self, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pulumi, "get", get)
        yield found


@cache
def everything() -> tuple[frozenset[Read], tuple[Graph, ...]]:
    """Return all that the components read, and what they registered and invoked meanwhile."""

    def parts() -> None:
        network(nat="per-zone", endpoints=("sts", "ecr.api"), flow_log_days=90, **ROUTED)
        storage("elastic", archiveAfter="90d")
        storage("provisioned", throughput="provisioned", provisionedMibps=10)
        adopted_network()
        adopted_cluster()
        adopted_storage()

    with recording() as found:
        graphs = (
            registered(parts, existing=existing_resources()),
            registered(environment),
            service({"domain": "os.example.com", "certificate": CERTIFICATE}),
            balancer({"dns": {"zone": "Z1"}}),
            envoy(),
            metering(),
            registered(lambda: capacity(isolated=True)),
            sandbox_class(**VETTED, identity={"kind": "pod-identity", "policies": [POLICY]}),
        )
    return frozenset(found), graphs


def named_in_the_components() -> tuple[set[str], set[str]]:
    """The types of AWS resources and the functions that the source of the components names."""
    types: set[str] = set()
    functions: set[str] = set()
    for path in EXPORTED_COMPONENTS.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules: dict[str, Any] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "pulumi_aws":
                sdk = importlib.import_module("pulumi_aws")
                modules.update({alias.asname or alias.name: getattr(sdk, alias.name) for alias in node.names})
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for node in called:
            target: Any = None
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                target = getattr(modules[node.value.id], node.attr)
            elif isinstance(node, ast.Name):
                target = modules.get(node.id)
            if isinstance(getattr(target, "pulumi_type", None), str):
                types.add(target.pulumi_type)
            elif getattr(target, "__name__", "").startswith("get_"):
                functions.add(f"{target.__module__}.{target.__name__}".removesuffix("_output"))
    return types, functions
