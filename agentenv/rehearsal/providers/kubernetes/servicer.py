"""The engine's gRPC calls, put to the provider and answered."""

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
from agentenv.rehearsal.providers.kubernetes.credentials import NoCredentials
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.reach import Unreached
from agentenv.rehearsal.providers.kubernetes.releases import TOKEN as RELEASE
from agentenv.rehearsal.providers.kubernetes.releases import Releases
from agentenv.rehearsal.providers.kubernetes.urns import BadToken, Resource, resource
from agentenv.rehearsal.providers.kubernetes.values import Bag, format_path
from agentenv.rehearsal.providers.kubernetes.words import Impossible, Partial

SECRET_SETTINGS: Final = frozenset({"kubeconfig"})


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """One plugin process: each call reads its request, asks the provider, and writes the answer."""

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
        news = Bag.of(request.news)
        hidden = news.secrets | {(name,) for name in SECRET_SETTINGS if name in news.values}
        return provider_pb2.CheckResponse(
            inputs=Bag(news.values, hidden).struct(),
            failures=responses.failures(settings.check(news.values, os.environ)),
        )

    def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - see Handshake
        old = Bag.of(request.old_inputs if request.old_inputs.fields else request.olds)
        diffs, replaces = settings.changed(old.values, Bag.of(request.news).values)
        return responses.config_diff(diffs, replaces)

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        values = Bag.of(request.args)
        given = values.values or {k.removeprefix(settings.PREFIX): v for k, v in request.variables.items()}
        self._run(context, "configuring kubernetes", lambda: self.provider.configure(given), Bag(given))
        return responses.configured()

    # -- resources ----------------------------------------------------------------------------------------------------

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        news, olds, auto = Bag.of(request.news), Bag.of(request.olds), request.autonaming
        off = auto.mode == provider_pb2.CheckRequest.AutonamingOptions.DISABLE
        rules = Naming(request.randomSeed, auto.proposed_name, off)
        kept, problems = self._on(
            context, request, "checking", news, lambda r: self._for(r).check(r, news, olds, rules)
        )
        return provider_pb2.CheckResponse(inputs=kept.struct(), failures=responses.failures(problems))

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        state, old, news = Bag.of(request.olds), Bag.of(request.old_inputs), Bag.of(request.news)
        ignored = tuple(request.ignoreChanges)
        found = self._on(context, request, "comparing", news, lambda r: self._for(r).diff(r, state, old, news, ignored))
        each = [(change, found.replacing(change)) for change in found.changes]
        replaces = sorted({format_path(change.path) for change in found.replaces})
        return responses.resource_diff(each, replaces, delete_before_replace=found.first_delete)

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        inputs = Bag.of(request.properties)

        def work(one: Resource) -> tuple[str, Bag]:
            if request.preview:
                return "", self._for(one).preview_create(one, inputs)
            return self._for(one).create(one, inputs, request.timeout)

        id_, out = self._on(context, request, "creating", inputs, work)
        return provider_pb2.CreateResponse(id=id_, properties=out.struct())

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        state, inputs = Bag.of(request.properties), Bag.of(request.inputs)
        found = self._on(context, request, "reading", inputs, lambda r: self._for(r).read(r, request.id, state, inputs))
        if found is None:
            return provider_pb2.ReadResponse()
        id_, now, told = found
        return provider_pb2.ReadResponse(id=id_, properties=now.struct(), inputs=told.struct())

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        state, news, ignored = Bag.of(request.olds), Bag.of(request.news), tuple(request.ignoreChanges)

        def work(one: Resource) -> Bag:
            if request.preview:
                return self._for(one).preview_update(state, news, ignored)
            return self._for(one).update(one, state, news, request.timeout, ignored=ignored)[1]

        out = self._on(context, request, "updating", news, work)
        return provider_pb2.UpdateResponse(properties=out.struct())

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        state = Bag.of(request.properties)
        self._on(
            context, request, "deleting", state, lambda r: self._for(r).delete(r, request.id, state, request.timeout)
        )
        return empty_pb2.Empty()

    # -- functions and components -------------------------------------------------------------------------------------

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        arguments = Bag.of(request.args)
        out = self._run(
            context,
            f"calling {request.tok}",
            lambda: functions.invoke(self.provider, request.tok, arguments.values),
            arguments,
        )
        answer = provider_pb2.InvokeResponse()
        getattr(answer, "return").CopyFrom(Bag(out).struct())
        return answer

    def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802 - see Handshake
        from agentenv.rehearsal.providers.kubernetes import components  # the SDK's own server comes with it

        return self._run(
            context,
            f"building {request.type} {request.name}",
            lambda: components.construct(self.provider, self._engine, self._version, request),
            Bag.of(request.inputs),
        )

    def _for(self, one: Resource) -> Provider | Releases:
        """Who answers for a resource: a release is no object of the API server's."""
        return Releases(self.provider) if one.token == RELEASE else self.provider

    def _on(self, context: Any, request: Any, doing: str, bag: Bag, work: Callable[[Resource], Any]) -> Any:
        token = request.urn.split("::")[2].rsplit("$", maxsplit=1)[-1] if "::" in request.urn else ""
        return self._run(context, f"{doing} {token} ({request.urn})", lambda: work(resource(request.urn)), bag)

    def _run(self, context: Any, where: str, work: Callable[[], Any], bag: Bag) -> Any:
        """Do the work; what goes wrong leaves as one sentence with the server's words, and no traceback."""
        try:
            return work()
        except Partial as error:
            left = PartialResource(
                error.id,
                error.state.struct(),
                error.inputs.struct(),
                [without_secrets(reason, bag.values, bag.secrets) for reason in error.reasons],
            )
            context.abort_with_status(InitFailedStatus(left, without_secrets(str(error), bag.values, bag.secrets)))
        except (Impossible, Unreached, BadToken, ApiError, Unreachable, NoCredentials) as error:
            message = without_secrets(str(error), bag.values, bag.secrets)
            context.abort(grpc.StatusCode.UNKNOWN, message if isinstance(error, Impossible) else f"{where}: {message}")
        except Exception as error:  # noqa: BLE001 - the last stop: a fault of ours must reach the user as a sentence
            kind = type(error).__name__
            text = without_secrets(str(error), bag.values, bag.secrets)
            context.abort(grpc.StatusCode.INTERNAL, f"{where}: a fault in the stand-in provider: {kind}: {text}")
