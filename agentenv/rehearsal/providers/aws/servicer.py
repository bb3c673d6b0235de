"""The gRPC service of the provider: decodes the engine's requests and encodes the responses.

It implements the protocol itself. The SDK's experimental provider cannot return the id of a resource that was created
half way, adds a traceback to every error, and ignores the engine's options for automatic naming.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from agentenv.rehearsal.providers.aws import execute, provider_config, shapes
from agentenv.rehearsal.providers.aws.api_calls import CloudError
from agentenv.rehearsal.providers.aws.provider import InvalidRequest, Provider, Unsupported
from agentenv.rehearsal.providers.common import responses
from agentenv.rehearsal.providers.common.errors import InitFailedStatus, PartialResource, without_secrets
from agentenv.rehearsal.providers.common.property_values import Path, decode, encode

SCHEMA_VERSION: Final = "7.39.0"  # the official version whose schema the rows follow


def secret_outputs(token: str, secrets: frozenset[Path], outputs: Mapping[str, Any]) -> frozenset[Path]:
    """Return the secret paths of the outputs: those of the schema, and those that were secret inputs."""
    shape = shapes.shape(token)
    hidden = {(name,) for name, fact in shape.outputs.items() if fact.secret}
    for path in secrets:
        first, *rest = path
        # The order of a list may differ, so all of it is secret; a tag is found by its key.
        hidden |= {path, ("tagsAll", *rest)} if first == "tags" else {(first,)}
    return frozenset(path for path in hidden if path[0] in outputs)


@dataclass(frozen=True)
class RequestInfo:
    """The subject of a request, for its error message."""

    action: str
    token: str
    urn: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    secrets: frozenset[Path] = frozenset()

    def redact(self, error: Exception) -> str:
        return without_secrets(str(error), self.values, self.secrets)


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """The provider's gRPC service."""

    def __init__(self, version: str, provider: Provider | None = None) -> None:
        self._version = version
        self.provider = provider or Provider()

    # -- the plugin itself --------------------------------------------------------------------------------------------

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - the protocol's name and arguments
        return responses.handshake()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return plugin_pb2.PluginInfo(version=self._version)

    def Attach(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        if self.provider.configuration is not None:
            self.provider.cloud.stopping.set()
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        values, secrets = decode(request.news)
        problems = provider_config.check(values)
        hidden = secrets | {(name,) for name in provider_config.SECRET if name in values}
        return provider_pb2.CheckResponse(inputs=encode(values, hidden), failures=responses.failures(problems))

    def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        old, _ = decode(request.old_inputs if request.old_inputs.fields else request.olds)
        new, _ = decode(request.news)
        changed = sorted(k for k in {*old, *new} if old.get(k) != new.get(k) and k not in {"version", "__internal"})
        return responses.config_diff(changed, [key for key in changed if key == "region"])

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        values, _ = decode(request.args)
        self._run(context, RequestInfo("configuring", "aws"), lambda: self.provider.configure(values))
        return responses.configured()

    # -- resources ----------------------------------------------------------------------------------------------------

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, name = _type_and_name(request)
        new, secrets = decode(request.news)
        old, _ = decode(request.olds)
        auto = request.autonaming
        off = auto.mode == provider_pb2.CheckRequest.AutonamingOptions.DISABLE

        def run() -> Any:
            options = {"seed": request.randomSeed, "proposed": auto.proposed_name, "naming_off": off}
            return self.provider.check(token, name, new, old, secrets=secrets, **options)

        checked, problems = self._run(context, RequestInfo("checking", token, request.urn, new, secrets), run)
        return provider_pb2.CheckResponse(inputs=encode(checked, secrets), failures=responses.failures(problems))

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, _ = _type_and_name(request)
        old, _ = decode(request.old_inputs if request.old_inputs.fields else request.olds)
        new, _ = decode(request.news)
        ignored = tuple(request.ignoreChanges)
        info = RequestInfo("comparing", token, request.urn)
        result = self._run(context, info, lambda: self.provider.diff(token, old, new, ignored))
        changes = [(change, change.replaces) for change in result.changes]
        return responses.resource_diff(changes, result.replaces, delete_before_replace=result.delete_before_replace)

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, _ = _type_and_name(request)
        inputs, secrets = decode(request.properties)

        def run() -> tuple[str, dict[str, Any]]:
            if request.preview:
                return "", self.provider.preview_create(token, inputs)
            return self.provider.create(token, inputs, request.timeout)

        id_, out = self._run(context, RequestInfo("creating", token, request.urn, inputs, secrets), run)
        return provider_pb2.CreateResponse(id=id_, properties=encode(out, secret_outputs(token, secrets, out)))

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, _ = _type_and_name(request)
        state, hidden = decode(request.properties)
        inputs, secrets = decode(request.inputs)
        secrets |= hidden
        info = RequestInfo("reading", token, request.urn, inputs, secrets)
        result = self._run(context, info, lambda: self.provider.read(token, request.id, state, inputs))
        if result is None:
            return provider_pb2.ReadResponse()
        id_, out, current = result
        hidden_outputs = secret_outputs(token, secrets, out)
        return provider_pb2.ReadResponse(
            id=id_,
            properties=encode(out, hidden_outputs),
            inputs=encode(current, secrets | {path for path in hidden_outputs if path[0] in current}),
        )

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, _ = _type_and_name(request)
        state, _ = decode(request.olds)
        old, _ = decode(request.old_inputs)
        new, secrets = decode(request.news)

        def run() -> dict[str, Any]:
            if request.preview:
                return self.provider.preview_update(token, state, new)
            options = {"timeout": request.timeout, "ignored": tuple(request.ignoreChanges)}
            return self.provider.update(token, request.id, state, old, new, **options)

        out = self._run(context, RequestInfo("updating", token, request.urn, new, secrets), run)
        return provider_pb2.UpdateResponse(properties=encode(out, secret_outputs(token, secrets, out)))

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, _ = _type_and_name(request)
        state, secrets = decode(request.properties)
        inputs, _ = decode(request.old_inputs)

        def run() -> None:
            self.provider.delete(token, request.id, state, inputs, request.timeout)

        self._run(context, RequestInfo("deleting", token, request.urn, state, secrets), run)
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        arguments, secrets = decode(request.args)
        info = RequestInfo("invoking", request.tok, values=arguments, secrets=secrets)
        out, problems = self._run(context, info, lambda: self.provider.invoke(request.tok, arguments))
        hidden = secret_outputs(request.tok, secrets, out) if out else frozenset[Path]()
        return provider_pb2.InvokeResponse(**{"return": encode(out, hidden)}, failures=responses.failures(problems))

    # -- not supported -----------------------------------------------------------------------------------------------

    def _unimplemented(self, context: Any, feature: str) -> Any:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the stand-in aws provider has no {feature}")

    def GetSchema(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._unimplemented(context, "schema: take it from the SDK or the official plugin")

    def GetMapping(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._unimplemented(context, "mapping")

    def GetMappings(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._unimplemented(context, "mappings")

    def Parameterize(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._unimplemented(context, "parameters")

    def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._unimplemented(context, "components")

    def Call(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        return self._unimplemented(context, f"method {request.tok}")

    def StreamInvoke(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._unimplemented(context, "streams")

    def List(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._unimplemented(context, "listing")

    def _run(self, context: Any, info: RequestInfo, run: Callable[[], Any]) -> Any:
        """Run a request. An error becomes a message with the service's error and the URN, without a traceback."""
        where = f"{info.action} {info.token}" + (f" ({info.urn})" if info.urn else "")
        try:
            return run()
        except execute.PartialCreate as error:
            message = f"{where}: {error.id} was created, but is not complete: {info.redact(error)}"
            hidden = secret_outputs(info.token, info.secrets, error.outputs)
            partial = PartialResource(error.id, encode(error.outputs, hidden), None, [message])
            context.abort_with_status(InitFailedStatus(partial, message))
        except Unsupported as error:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{where}: {error}")
        except (CloudError, InvalidRequest) as error:
            context.abort(grpc.StatusCode.UNKNOWN, f"{where}: {info.redact(error)}")
        except Exception as error:  # noqa: BLE001 - a defect of the stand-in must reach the user as a message
            kind = type(error).__name__
            message = info.redact(error)
            context.abort(grpc.StatusCode.INTERNAL, f"{where}: an error in the stand-in provider: {kind}: {message}")


def _type_and_name(request: Any) -> tuple[str, str]:
    """Return the type and the name of the request's resource. In a URN the parents' types precede a child's."""
    parts = request.urn.split("::")
    return parts[2].split("$")[-1], "::".join(parts[3:])
