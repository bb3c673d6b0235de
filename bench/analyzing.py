"""Run a policy pack as its own process, and send it the engine's requests: without the time of the engine itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from agentenv.cli.review.graph import Resource

# The engine's address, which a pack needs for its log, and does not call without an error
UNUSED_ADDRESS = "127.0.0.1:1"
MAX_MESSAGE = 400 * 1024 * 1024


@dataclass(frozen=True)
class Analyzer:
    """A running policy pack."""

    stub: Any

    def analyze(self, requests: Requests) -> list[str]:
        """Analyze every resource and then the stack, and return the rules of the findings."""
        found = [
            diagnostic.policyName
            for resource in requests.resource_requests
            for diagnostic in self.stub.Analyze(resource).diagnostics
        ]
        return found + [
            diagnostic.policyName for diagnostic in self.stub.AnalyzeStack(requests.stack_request).diagnostics
        ]


@dataclass(frozen=True)
class Requests:
    """The engine's requests for a stack, created in advance."""

    resource_requests: tuple[Any, ...]
    stack_request: Any


def requests(resources: Sequence[Resource]) -> Requests:
    """Create the requests for these resources. Unknown values have the engine's placeholders."""
    resource_requests = [analyzer_pb2.AnalyzeRequest(**_fields(resource)) for resource in resources]
    stack_request = [
        analyzer_pb2.AnalyzerResource(
            **_fields(resource),
            parent=resource.parent,
            dependencies=resource.dependencies,
            propertyDependencies={
                key: analyzer_pb2.AnalyzerPropertyDependencies(urns=urns)
                for key, urns in resource.property_dependencies.items()
            },
        )
        for resource in resources
    ]
    return Requests(tuple(resource_requests), analyzer_pb2.AnalyzeStackRequest(resources=stack_request))


def _fields(resource: Resource) -> dict[str, Any]:
    """Return the fields that the requests about a resource and about a stack share."""
    options = analyzer_pb2.AnalyzerResourceOptions(protect=resource.protect, parent=resource.parent)
    properties = _struct(resource.inputs)
    return {
        "type": resource.type,
        "name": resource.name,
        "urn": resource.urn,
        "properties": properties,
        "options": options,
    }


def preview_variables(project: str, stack: str, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables that the engine sets for a pack in a preview of a stack."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    return {
        "PULUMI_CONFIG": json.dumps(texts),
        "PULUMI_ORGANIZATION": "organization",
        "PULUMI_PROJECT": project,
        "PULUMI_STACK": stack,
        "PULUMI_DRY_RUN": "true",
    }


@contextmanager
def analyzer(folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[Analyzer]:
    """Start the pack of a folder, with the variables of a stack, and stop it afterwards."""
    # It prints its port in one line, which a pipe would buffer
    command = [sys.executable, "-u", "-m", "pulumi.policy", UNUSED_ADDRESS, str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, **(variables or {})}
    ) as process:
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            options = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)]
            with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
                stub: Any = analyzer_pb2_grpc.AnalyzerStub(channel)
                stub.Configure(analyzer_pb2.ConfigureAnalyzerRequest(), wait_for_ready=True, timeout=60)
                yield Analyzer(stub)
        finally:
            process.terminate()


def _struct(inputs: Any) -> struct_pb2.Struct:
    return json_format.ParseDict(dict(inputs), struct_pb2.Struct())
