"""The gRPC service of the provider."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Final

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from agentenv.rehearsal.providers.common import responses
from agentenv.rehearsal.providers.common.errors import InitFailedStatus, PartialResource, without_secrets
from agentenv.rehearsal.providers.common.messages import EngineLog
from agentenv.rehearsal.providers.kubernetes import functions, settings
from agentenv.rehearsal.providers.kubernetes.checking import Naming
from agentenv.rehearsal.providers.kubernetes.client import ApiError, Unreachable
from agentenv.rehearsal.providers.kubernetes.credentials import CredentialsError
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.reach import ClusterUnreachable
from agentenv.rehearsal.providers.kubernetes.releases import TOKEN as RELEASE
from agentenv.rehearsal.providers.kubernetes.releases import Releases
from agentenv.rehearsal.providers.kubernetes.urns import InvalidType, Resource, resource
from agentenv.rehearsal.providers.kubernetes.values import PropertyMap, format_path
from agentenv.rehearsal.providers.kubernetes.words import InitFailed, InvalidRequest

SECRET_SETTINGS: Final = frozenset({"kubeconfig"})


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """The service of one plugin process."""

    def __init__(self, version: str, engine: str = "", provider: Provider | None = None) -> None:
        self._version = version
        self._engine = engine
        self.provider = provider or Provider(EngineLog(engine))

    # -- the plugin itself --------------------------------------------------------------------------------------------

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - the protocol's name and arguments
        self._listen_to(request.engine_address)
        return responses.handshake()

    def Attach(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        self._listen_to(request.address)
        return empty_pb2.Empty()

    def _listen_to(self, address: str) -> None:
        if address and address != self._engine:
            self._engine = address
            self.provider.reporter = EngineLog(address)

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        return plugin_pb2.PluginInfo(version=self._version)

    def GetSchema(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        # Programs bring their types with the SDK; a schema is only asked for by tools, which get the package's name.
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "kubernetes", "version": self._version}))

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        self.provider.cancel()
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        news = PropertyMap.of(request.news)
        hidden = news.secrets | {(name,) for name in SECRET_SETTINGS if name in news.values}
        return provider_pb2.CheckResponse(
            inputs=PropertyMap(news.values, hidden).struct(),
            failures=responses.failures(settings.check(news.values, os.environ)),
        )

    def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        old = PropertyMap.of(request.old_inputs if request.old_inputs.fields else request.olds)
        diffs, replaces = settings.changed(old.values, PropertyMap.of(request.news).values)
        return responses.config_diff(diffs, replaces)

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        values = PropertyMap.of(request.args)
        config = values.values or {k.removeprefix(settings.PREFIX): v for k, v in request.variables.items()}
        self._run(context, "configuring kubernetes", lambda: self.provider.configure(config), PropertyMap(config))
        return responses.configured()

    # -- resources ----------------------------------------------------------------------------------------------------

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        news, olds, auto = PropertyMap.of(request.news), PropertyMap.of(request.olds), request.autonaming
        off = auto.mode == provider_pb2.CheckRequest.AutonamingOptions.DISABLE
        rules = Naming(request.randomSeed, auto.proposed_name, off)
        checked, problems = self._on(
            context, request, "checking", news, lambda r: self._for(r).check(r, news, olds, rules)
        )
        return provider_pb2.CheckResponse(inputs=checked.struct(), failures=responses.failures(problems))

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        state, old, news = (
            PropertyMap.of(request.olds),
            PropertyMap.of(request.old_inputs),
            PropertyMap.of(request.news),
        )
        ignored = tuple(request.ignoreChanges)
        result = self._on(
            context, request, "comparing", news, lambda r: self._for(r).diff(r, state, old, news, ignored)
        )
        each = [(change, result.replacing(change)) for change in result.changes]
        replaces = sorted({format_path(change.path) for change in result.replaces})
        return responses.resource_diff(each, replaces, delete_before_replace=result.delete_before_replace)

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        inputs = PropertyMap.of(request.properties)

        def handler(resource: Resource) -> tuple[str, PropertyMap]:
            if request.preview:
                return "", self._for(resource).preview_create(resource, inputs)
            return self._for(resource).create(resource, inputs, request.timeout)

        id_, out = self._on(context, request, "creating", inputs, handler)
        return provider_pb2.CreateResponse(id=id_, properties=out.struct())

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        state, inputs = PropertyMap.of(request.properties), PropertyMap.of(request.inputs)
        result = self._on(
            context, request, "reading", inputs, lambda r: self._for(r).read(r, request.id, state, inputs)
        )
        if result is None:
            return provider_pb2.ReadResponse()
        id_, current, properties = result
        return provider_pb2.ReadResponse(id=id_, properties=current.struct(), inputs=properties.struct())

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        state, news, ignored = PropertyMap.of(request.olds), PropertyMap.of(request.news), tuple(request.ignoreChanges)

        def handler(resource: Resource) -> PropertyMap:
            if request.preview:
                return self._for(resource).preview_update(state, news, ignored)
            return self._for(resource).update(resource, state, news, request.timeout, ignored=ignored)[1]

        out = self._on(context, request, "updating", news, handler)
        return provider_pb2.UpdateResponse(properties=out.struct())

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        state = PropertyMap.of(request.properties)
        self._on(
            context, request, "deleting", state, lambda r: self._for(r).delete(r, request.id, state, request.timeout)
        )
        return empty_pb2.Empty()

    # -- functions and components -------------------------------------------------------------------------------------

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        arguments = PropertyMap.of(request.args)
        out = self._run(
            context,
            f"calling {request.tok}",
            lambda: functions.invoke(self.provider, request.tok, arguments.values),
            arguments,
        )
        response = provider_pb2.InvokeResponse()
        getattr(response, "return").CopyFrom(PropertyMap(out).struct())
        return response

    def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        from agentenv.rehearsal.providers.kubernetes import components  # the SDK's own server comes with it

        return self._run(
            context,
            f"building {request.type} {request.name}",
            lambda: components.construct(self.provider, self._engine, self._version, request),
            PropertyMap.of(request.inputs),
        )

    def _for(self, resource: Resource) -> Provider | Releases:
        """Return the handler of a resource: `Releases` for helm releases, else the provider."""
        return Releases(self.provider) if resource.token == RELEASE else self.provider

    def _on(self, context: Any, request: Any, action: str, bag: PropertyMap, handler: Callable[[Resource], Any]) -> Any:
        token = request.urn.split("::")[2].rsplit("$", maxsplit=1)[-1] if "::" in request.urn else ""
        return self._run(context, f"{action} {token} ({request.urn})", lambda: handler(resource(request.urn)), bag)

    def _run(self, context: Any, subject: str, handler: Callable[[], Any], bag: PropertyMap) -> Any:
        """Run a request. An error becomes one message with the server's error, without a traceback."""
        try:
            return handler()
        except InitFailed as error:
            left = PartialResource(
                error.id,
                error.state.struct(),
                error.inputs.struct(),
                [without_secrets(reason, bag.values, bag.secrets) for reason in error.reasons],
            )
            context.abort_with_status(InitFailedStatus(left, without_secrets(str(error), bag.values, bag.secrets)))
        except (InvalidRequest, ClusterUnreachable, InvalidType, ApiError, Unreachable, CredentialsError) as error:
            message = without_secrets(str(error), bag.values, bag.secrets)
            context.abort(
                grpc.StatusCode.UNKNOWN, message if isinstance(error, InvalidRequest) else f"{subject}: {message}"
            )
        except Exception as error:  # noqa: BLE001 - the last stop: a fault of ours must reach the user as a sentence
            kind = type(error).__name__
            text = without_secrets(str(error), bag.values, bag.secrets)
            context.abort(grpc.StatusCode.INTERNAL, f"{subject}: a fault in the stand-in provider: {kind}: {text}")
