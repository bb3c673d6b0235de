"""A policy pack as its own process, asked what the engine would ask it: without the engine's own time in between."""

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

# The engine's address, which a pack keeps for its log and never calls while nothing goes wrong
NOBODY = "127.0.0.1:1"
LARGEST = 400 * 1024 * 1024


@dataclass(frozen=True)
class Analyzer:
    """A pack that listens."""

    stub: Any

    def review(self, questions: Questions) -> list[str]:
        """Ask about every resource, and then about the whole; the rules of the findings."""
        found = [said.policyName for one in questions.each for said in self.stub.Analyze(one).diagnostics]
        return found + [said.policyName for said in self.stub.AnalyzeStack(questions.whole).diagnostics]


@dataclass(frozen=True)
class Questions:
    """What the engine would send of a stack, made beforehand."""

    each: tuple[Any, ...]
    whole: Any


def questions(resources: Sequence[Resource]) -> Questions:
    """The requests for these resources, with their unknowns as the engine marks them."""
    each = [
        analyzer_pb2.AnalyzeRequest(
            type=one.type,
            name=one.name,
            urn=one.urn,
            properties=_struct(one.inputs),
            options=analyzer_pb2.AnalyzerResourceOptions(protect=one.protect, parent=one.parent),
        )
        for one in resources
    ]
    whole = [
        analyzer_pb2.AnalyzerResource(
            type=one.type,
            name=one.name,
            urn=one.urn,
            properties=_struct(one.inputs),
            options=analyzer_pb2.AnalyzerResourceOptions(protect=one.protect, parent=one.parent),
            parent=one.parent,
            dependencies=one.dependencies,
            propertyDependencies={
                key: analyzer_pb2.AnalyzerPropertyDependencies(urns=urns)
                for key, urns in one.property_dependencies.items()
            },
        )
        for one in resources
    ]
    return Questions(tuple(each), analyzer_pb2.AnalyzeStackRequest(resources=whole))


def previewing(project: str, stack: str, config: Mapping[str, Any]) -> dict[str, str]:
    """What the engine tells a pack around a preview of a stack; the configuration as it stands in the stack file."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    return {
        "PULUMI_CONFIG": json.dumps(texts),
        "PULUMI_ORGANIZATION": "organization",
        "PULUMI_PROJECT": project,
        "PULUMI_STACK": stack,
        "PULUMI_DRY_RUN": "true",
    }


@contextmanager
def analyzer(folder: Path, around: Mapping[str, str] | None = None) -> Iterator[Analyzer]:
    """The pack of a folder, for as long as it is needed; `around` is what the engine says of the stack."""
    # Its port is the one line that it prints, and a pipe would keep that back
    command = [sys.executable, "-u", "-m", "pulumi.policy", NOBODY, str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, **(around or {})}
    ) as process:
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            options = [("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST)]
            with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
                stub: Any = analyzer_pb2_grpc.AnalyzerStub(channel)
                stub.Configure(analyzer_pb2.ConfigureAnalyzerRequest(), wait_for_ready=True, timeout=60)
                yield Analyzer(stub)
        finally:
            process.terminate()


def _struct(inputs: Any) -> struct_pb2.Struct:
    return json_format.ParseDict(dict(inputs), struct_pb2.Struct())
