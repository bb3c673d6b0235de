"""The engine's gRPC calls, put to the provider and answered.

It stands on the protocol itself and not on the SDK's experimental provider: that one has no way to hand back the id of
something half made, adds a traceback to every error, and takes no word from the engine on naming.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from agentenv.rehearsal.providers.aws import execute as work
from agentenv.rehearsal.providers.aws import provider as providers
from agentenv.rehearsal.providers.aws import provider_config as settings
from agentenv.rehearsal.providers.aws import shapes
from agentenv.rehearsal.providers.aws.api_calls import CloudError
from agentenv.rehearsal.providers.common import property_values as wire
from agentenv.rehearsal.providers.common import responses as answers
from agentenv.rehearsal.providers.common.errors import HalfMade, Left, without_secrets
from agentenv.rehearsal.providers.common.property_values import Path

SCHEMA_VERSION: Final = "7.39.0"  # the official version whose schema the rows follow


def outputs_secrets(token: str, secrets: frozenset[Path], outputs: Mapping[str, Any]) -> frozenset[Path]:
    """What is secret in the outputs: what the schema says, and whatever was secret when it went in."""
    shape = shapes.shape(token)
    hidden = {(name,) for name, fact in shape.outputs.items() if fact.secret}
    for path in secrets:
        first, *rest = path
        # A part of a list may have moved by now, so the whole is hidden; a tag is found again by its key.
        hidden |= {path, ("tagsAll", *rest)} if first == "tags" else {(first,)}
    return frozenset(path for path in hidden if path[0] in outputs)


@dataclass(frozen=True)
class Asked:
    """What a call was about, for the sentence that tells how it failed."""

    doing: str
    token: str
    urn: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    secrets: frozenset[Path] = frozenset()

    def redact(self, error: Exception) -> str:
        return without_secrets(str(error), self.values, self.secrets)


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """The engine's calls. Each reads its request, asks the provider, and writes the answer."""

    def __init__(self, version: str, provider: providers.Provider | None = None) -> None:
        self._version = version
        self.provider = provider or providers.Provider()

    # -- the plugin itself --------------------------------------------------------------------------------------------

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - the protocol's name and arguments
        return answers.handshake()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return plugin_pb2.PluginInfo(version=self._version)

    def Attach(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        if self.provider.configuration is not None:
            self.provider.cloud.stopping.set()
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        values, secrets = wire.read(request.news)
        problems = settings.check(values)
        hidden = secrets | {(name,) for name in settings.SECRET if name in values}
        return provider_pb2.CheckResponse(inputs=wire.write(values, hidden), failures=answers.failures(problems))

    def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        old, _ = wire.read(request.old_inputs if request.old_inputs.fields else request.olds)
        new, _ = wire.read(request.news)
        moved = sorted(k for k in {*old, *new} if old.get(k) != new.get(k) and k not in {"version", "__internal"})
        return answers.settings_changed(moved, [key for key in moved if key == "region"])

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        values, _ = wire.read(request.args)
        self._run(context, Asked("configuring", "aws"), lambda: self.provider.configure(values))
        return answers.configured()

    # -- resources ----------------------------------------------------------------------------------------------------

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, name = _of(request)
        new, secrets = wire.read(request.news)
        old, _ = wire.read(request.olds)
        auto = request.autonaming
        off = auto.mode == provider_pb2.CheckRequest.AutonamingOptions.DISABLE

        def work_() -> Any:
            more = {"seed": request.randomSeed, "proposed": auto.proposed_name, "naming_off": off}
            return self.provider.check(token, name, new, old, secrets=secrets, **more)

        kept, problems = self._run(context, Asked("checking", token, request.urn, new, secrets), work_)
        return provider_pb2.CheckResponse(inputs=wire.write(kept, secrets), failures=answers.failures(problems))

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, _ = _of(request)
        old, _ = wire.read(request.old_inputs if request.old_inputs.fields else request.olds)
        new, _ = wire.read(request.news)
        ignored = tuple(request.ignoreChanges)
        asked = Asked("comparing", token, request.urn)
        found = self._run(context, asked, lambda: self.provider.diff(token, old, new, ignored))
        each = [(change, change.replaces) for change in found.changes]
        return answers.changed(each, found.replaces, first_delete=found.first_delete)

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, _ = _of(request)
        inputs, secrets = wire.read(request.properties)

        def work_() -> tuple[str, dict[str, Any]]:
            if request.preview:
                return "", self.provider.preview_create(token, inputs)
            return self.provider.create(token, inputs, request.timeout)

        id_, out = self._run(context, Asked("creating", token, request.urn, inputs, secrets), work_)
        return provider_pb2.CreateResponse(id=id_, properties=wire.write(out, outputs_secrets(token, secrets, out)))

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, _ = _of(request)
        state, hidden = wire.read(request.properties)
        inputs, secrets = wire.read(request.inputs)
        secrets |= hidden
        asked = Asked("reading", token, request.urn, inputs, secrets)
        found = self._run(context, asked, lambda: self.provider.read(token, request.id, state, inputs))
        if found is None:
            return provider_pb2.ReadResponse()
        id_, out, now = found
        shown = outputs_secrets(token, secrets, out)
        return provider_pb2.ReadResponse(
            id=id_,
            properties=wire.write(out, shown),
            inputs=wire.write(now, secrets | {path for path in shown if path[0] in now}),
        )

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, _ = _of(request)
        state, _ = wire.read(request.olds)
        old, _ = wire.read(request.old_inputs)
        new, secrets = wire.read(request.news)

        def work_() -> dict[str, Any]:
            if request.preview:
                return self.provider.preview_update(token, state, new)
            more = {"timeout": request.timeout, "ignored": tuple(request.ignoreChanges)}
            return self.provider.update(token, request.id, state, old, new, **more)

        out = self._run(context, Asked("updating", token, request.urn, new, secrets), work_)
        return provider_pb2.UpdateResponse(properties=wire.write(out, outputs_secrets(token, secrets, out)))

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        token, _ = _of(request)
        state, secrets = wire.read(request.properties)
        inputs, _ = wire.read(request.old_inputs)

        def work_() -> None:
            self.provider.delete(token, request.id, state, inputs, request.timeout)

        self._run(context, Asked("deleting", token, request.urn, state, secrets), work_)
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        arguments, secrets = wire.read(request.args)
        asked = Asked("asking", request.tok, values=arguments, secrets=secrets)
        out, problems = self._run(context, asked, lambda: self.provider.invoke(request.tok, arguments))
        hidden = outputs_secrets(request.tok, secrets, out) if out else frozenset[Path]()
        return provider_pb2.InvokeResponse(**{"return": wire.write(out, hidden)}, failures=answers.failures(problems))

    # -- what this provider has none of -------------------------------------------------------------------------------

    def _none(self, context: Any, what: str) -> Any:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the stand-in aws provider has no {what}")

    def GetSchema(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._none(context, "schema: take it from the SDK or the official plugin")

    def GetMapping(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._none(context, "mapping")

    def GetMappings(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._none(context, "mappings")

    def Parameterize(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._none(context, "parameters")

    def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._none(context, "components")

    def Call(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        return self._none(context, f"method {request.tok}")

    def StreamInvoke(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._none(context, "streams")

    def List(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return self._none(context, "listing")

    def _run(self, context: Any, asked: Asked, work_: Callable[[], Any]) -> Any:
        """Do the work; what goes wrong leaves as a sentence with the service's words and the URN, no traceback."""
        where = f"{asked.doing} {asked.token}" + (f" ({asked.urn})" if asked.urn else "")
        try:
            return work_()
        except work.Partial as error:
            message = f"{where}: {error.id} was made, but is not finished: {asked.redact(error)}"
            hidden = outputs_secrets(asked.token, asked.secrets, error.outputs)
            left = Left(error.id, wire.write(error.outputs, hidden), None, [message])
            context.abort_with_status(HalfMade(left, message))
        except providers.Unsupported as error:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{where}: {error}")
        except (CloudError, providers.Impossible) as error:
            context.abort(grpc.StatusCode.UNKNOWN, f"{where}: {asked.redact(error)}")
        except Exception as error:  # noqa: BLE001 - the last stop: a fault of ours must reach the user as a sentence
            kind = type(error).__name__
            said = asked.redact(error)
            context.abort(grpc.StatusCode.INTERNAL, f"{where}: a fault in the stand-in provider: {kind}: {said}")


def _of(request: Any) -> tuple[str, str]:
    """The type and name of a request's resource. A child's type has its parents' in front."""
    parts = request.urn.split("::")
    return parts[2].split("$")[-1], "::".join(parts[3:])
