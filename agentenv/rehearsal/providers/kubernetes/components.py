"""Components of the provider: the objects of manifests, registered as separate resources."""

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
from agentenv.rehearsal.providers.kubernetes.values import PropertyMap, has_unknown
from agentenv.rehearsal.providers.kubernetes.words import InvalidRequest

_NO_CONTEXT: Final[Any] = None  # the SDK only uses it for refused inputs, which we refuse as `RunError`
Gather = Callable[[Provider, str, Mapping[str, Any]], list[Object]]


def from_file(_provider: Provider, _name: str, arguments: Mapping[str, Any]) -> list[Object]:
    """`yaml/v2:ConfigFile`: one file."""
    file = arguments.get("file")
    if not isinstance(file, str) or not file:
        raise manifests.InvalidManifest("file is required: the path or address of a manifest")
    return manifests.read([file], patterns=False)


def from_group(_provider: Provider, _name: str, arguments: Mapping[str, Any]) -> list[Object]:
    """`yaml/v2:ConfigGroup`: files, a text and objects, in this order."""
    files = arguments.get("files") or []
    objects_in_namespace = manifests.read([files] if isinstance(files, str) else files, patterns=True)
    objects_in_namespace += manifests.parse(str(arguments.get("yaml") or ""), "yaml")
    return objects_in_namespace + [dict(obj) for obj in arguments.get("objs") or []]


def from_chart(provider: Provider, name: str, arguments: Mapping[str, Any]) -> list[Object]:
    """`helm.sh/v4:Chart`: the objects of a chart, without a release."""
    options = {
        **arguments,
        "name": arguments.get("name") or name,
        "namespace": arguments.get("namespace") or provider.namespace,
    }
    rendered = templating.template(provider, options)
    if rendered is None:
        return []
    definitions = [] if arguments.get("skipCrds") else rendered.definitions
    return manifests.normalized([*definitions, *rendered.objects], options["namespace"], provider.namespaced)


TABLE: Final[Mapping[str, Gather]] = {
    "kubernetes:yaml/v2:ConfigFile": from_file,
    "kubernetes:yaml/v2:ConfigGroup": from_group,
    "kubernetes:helm.sh/v4:Chart": from_chart,
}


def construct(provider: Provider, engine: str, version: str, request: Any) -> Any:
    """Handle a Construct request, with the SDK's component servicer."""
    if request.type not in TABLE:
        raise InvalidRequest(
            f"the stand-in kubernetes provider has no component {request.type!r}; it has {', '.join(sorted(TABLE))}"
        )
    provider.cluster()  # without one nothing can be said about the objects' namespaces
    if has_unknown(PropertyMap.of(request.inputs).values):
        provider.reporter.warn_once(
            f"{request.type} {request.name}: its objects are not known yet; the preview lacks them"
        )
    servicer = ProviderServicer(_Components(provider, version), [], engine)
    # The SDK keeps who it speaks to in context variables: each component gets a context, and a loop, of its own.
    try:
        return contextvars.Context().run(asyncio.run, servicer.Construct(request, _NO_CONTEXT))
    except RunError as error:
        raise InvalidRequest(str(error)) from None


class _Components(sdk.Provider):
    """The SDK's provider for components."""

    def __init__(self, provider: Provider, version: str) -> None:
        super().__init__(version)
        self._provider = provider

    def construct(
        self, name: str, resource_type: str, inputs: pulumi.Inputs, options: pulumi.ResourceOptions | None = None
    ) -> sdk.ConstructResult:
        component = pulumi.ComponentResource(resource_type, name, {}, options)
        outputs = pulumi.Output.all(**inputs) if inputs else pulumi.Output.from_input({})

        def register(arguments: Mapping[str, Any]) -> list[pulumi.Resource]:
            return self._register(component, name, resource_type, arguments)

        resources = outputs.apply(register)
        component.register_outputs({"resources": resources})
        return sdk.ConstructResult(component.urn, {"resources": resources})

    def _register(
        self, component: pulumi.Resource, name: str, resource_type: str, arguments: Mapping[str, Any]
    ) -> list[pulumi.Resource]:
        provider = self._provider
        try:
            objects_in_namespace = manifests.normalized(
                TABLE[resource_type](provider, name, arguments), provider.namespace, provider.namespaced
            )
            in_order = manifests.in_order(objects_in_namespace)
        except (manifests.InvalidManifest, charts.InvalidChart, charts.ChartUnavailable) as error:
            raise RunError(f"{resource_type} {name}: {error}") from None
        outputs = arguments.get("resourcePrefix")
        prefix = f"{name}:" if outputs is None else f"{outputs}:" if outputs else ""
        registered: list[pulumi.Resource] = []
        for item in in_order:
            options = pulumi.ResourceOptions(
                parent=component, depends_on=[registered[i] for i in item.after], version=self.version
            )
            obj = (
                objects.with_annotation(item.obj, objects.SKIP_AWAIT, "true")
                if arguments.get("skipAwait")
                else item.obj
            )
            registered.append(_child(obj, prefix + objects.identity(obj), options))
        return registered


def _child(obj: Object, name: str, options: pulumi.ResourceOptions) -> pulumi.CustomResource:
    version = objects.api_version(obj)
    token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{objects.kind(obj)}"
    inputs: dict[str, Any] = dict(obj)
    if objects.is_secret(obj):
        inputs |= {key: pulumi.Output.secret(inputs[key]) for key in ("data", "stringData") if key in inputs}
    return pulumi.CustomResource(token, name, inputs, options)
