"""Components built by the provider: the objects of manifests, registered as resources of their own."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import Any, Final

import pulumi
from pulumi import provider as sdk
from pulumi.errors import RunError
from pulumi.provider.server import ProviderServicer

from agentenv.rehearsal.providers.kubernetes import charts, manifests, objects, templating
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.values import Bag, has_unknown
from agentenv.rehearsal.providers.kubernetes.words import Impossible

_NO_CONTEXT: Final[Any] = None  # the SDK only uses it for refused inputs, which we refuse as `RunError`
Gather = Callable[[Provider, str, Mapping[str, Any]], list[Object]]


def from_file(_provider: Provider, _name: str, arguments: Mapping[str, Any]) -> list[Object]:
    """`yaml/v2:ConfigFile`: one file."""
    file = arguments.get("file")
    if not isinstance(file, str) or not file:
        raise manifests.BadManifest("file is required: the path or address of a manifest")
    return manifests.read([file], patterns=False)


def from_group(_provider: Provider, _name: str, arguments: Mapping[str, Any]) -> list[Object]:
    """`yaml/v2:ConfigGroup`: files, a text and objects, in this order."""
    files = arguments.get("files") or []
    found = manifests.read([files] if isinstance(files, str) else files, patterns=True)
    found += manifests.parse(str(arguments.get("yaml") or ""), "yaml")
    return found + [dict(obj) for obj in arguments.get("objs") or []]


def from_chart(provider: Provider, name: str, arguments: Mapping[str, Any]) -> list[Object]:
    """`helm.sh/v4:Chart`: a chart's objects, without a release around them."""
    wanted = {
        **arguments,
        "name": arguments.get("name") or name,
        "namespace": arguments.get("namespace") or provider.namespace,
    }
    rendered = templating.template(provider, wanted)
    if rendered is None:
        return []
    definitions = [] if arguments.get("skipCrds") else rendered.definitions
    return manifests.normal([*definitions, *rendered.objects], wanted["namespace"], provider.namespaced)


TABLE: Final[Mapping[str, Gather]] = {
    "kubernetes:yaml/v2:ConfigFile": from_file,
    "kubernetes:yaml/v2:ConfigGroup": from_group,
    "kubernetes:helm.sh/v4:Chart": from_chart,
}


def construct(provider: Provider, engine: str, version: str, request: Any) -> Any:
    """Answer the engine's request for a component, by the SDK's own way of building one."""
    if request.type not in TABLE:
        raise Impossible(
            f"the stand-in kubernetes provider has no component {request.type!r}; it has {', '.join(sorted(TABLE))}"
        )
    provider.cluster()  # without one nothing can be said about the objects' namespaces
    if has_unknown(Bag.of(request.inputs).values):
        provider.reporter.warn_once(
            f"{request.type} {request.name}: its objects are not known yet; the preview lacks them"
        )
    servicer = ProviderServicer(_Components(provider, version), [], engine)
    # The SDK keeps who it speaks to in context variables: each component gets a context, and a loop, of its own.
    try:
        return contextvars.Context().run(asyncio.run, servicer.Construct(request, _NO_CONTEXT))
    except RunError as error:
        raise Impossible(str(error)) from None


class _Components(sdk.Provider):
    """The SDK's side of a provider, as far as components go."""

    def __init__(self, provider: Provider, version: str) -> None:
        super().__init__(version)
        self._provider = provider

    def construct(
        self, name: str, resource_type: str, inputs: pulumi.Inputs, options: pulumi.ResourceOptions | None = None
    ) -> sdk.ConstructResult:
        component = pulumi.ComponentResource(resource_type, name, {}, options)
        given = pulumi.Output.all(**inputs) if inputs else pulumi.Output.from_input({})

        def register(arguments: Mapping[str, Any]) -> list[pulumi.Resource]:
            return self._register(component, name, resource_type, arguments)

        resources = given.apply(register)
        component.register_outputs({"resources": resources})
        return sdk.ConstructResult(component.urn, {"resources": resources})

    def _register(
        self, component: pulumi.Resource, name: str, resource_type: str, arguments: Mapping[str, Any]
    ) -> list[pulumi.Resource]:
        provider = self._provider
        try:
            found = manifests.normal(
                TABLE[resource_type](provider, name, arguments), provider.namespace, provider.namespaced
            )
            in_order = manifests.ordered(found)
        except (manifests.BadManifest, charts.BadChart, charts.NotHad) as error:
            raise RunError(f"{resource_type} {name}: {error}") from None
        given = arguments.get("resourcePrefix")
        prefix = f"{name}:" if given is None else f"{given}:" if given else ""
        made: list[pulumi.Resource] = []
        for one in in_order:
            options = pulumi.ResourceOptions(
                parent=component, depends_on=[made[i] for i in one.after], version=self.version
            )
            obj = (
                objects.with_annotation(one.obj, objects.SKIP_AWAIT, "true") if arguments.get("skipAwait") else one.obj
            )
            made.append(_child(obj, prefix + objects.identity(obj), options))
        return made


def _child(obj: Object, name: str, options: pulumi.ResourceOptions) -> pulumi.CustomResource:
    version = objects.api_version(obj)
    token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{objects.kind(obj)}"
    inputs: dict[str, Any] = dict(obj)
    if objects.is_secret(obj):
        inputs |= {key: pulumi.Output.secret(inputs[key]) for key in ("data", "stringData") if key in inputs}
    return pulumi.CustomResource(token, name, inputs, options)
