"""The engine's protocol for language hosts and policy packs, as the installed SDK spells it.

The generated messages live inside the SDK, and importing them the usual way runs all of it: half a second for every
process that the engine starts. They only refer to one another, so they are loaded from the SDK's folder under a name of
our own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pulumi.runtime.proto import analyzer_pb2, language_pb2, language_pb2_grpc, plugin_pb2

_PACKAGE = "_engine_protocol"

# What the SDK and the engine allow; gRPC's own default of 4 MB is less than one large resource.
CHANNEL_OPTIONS = [("grpc.max_receive_message_length", 400 * 2**20), ("grpc.max_send_message_length", 400 * 2**20)]


def _load(name: str) -> Any:
    if _PACKAGE not in sys.modules:
        spec = importlib.util.find_spec("pulumi")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("the Pulumi SDK is not installed in this Python environment: pip install pulumi")
        package = types.ModuleType(_PACKAGE)
        package.__path__ = [str(Path(folder) / "runtime" / "proto") for folder in spec.submodule_search_locations]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")


if not TYPE_CHECKING:
    analyzer_pb2 = _load("analyzer_pb2")
    language_pb2 = _load("language_pb2")
    language_pb2_grpc = _load("language_pb2_grpc")
    plugin_pb2 = _load("plugin_pb2")

__all__ = ["CHANNEL_OPTIONS", "analyzer_pb2", "language_pb2", "language_pb2_grpc", "plugin_pb2"]
