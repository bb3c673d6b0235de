"""The provider's functions: they parse manifests for programs that register the resources themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import charts, manifests, templating
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.words import InvalidRequest


def decode(provider: Provider, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`yaml:decode`: the objects of a text, for the older ConfigFile and ConfigGroup."""
    text = arguments.get("text")
    if not isinstance(text, str):
        raise InvalidRequest(f"text is required and has to be a string, found {type(text).__name__}")
    default = str(arguments.get("defaultNamespace") or provider.namespace)
    try:
        result = manifests.normalized(manifests.parse(text, "text"), default, provider.namespaced)
    except manifests.InvalidManifest as error:
        raise InvalidRequest(str(error)) from None
    return {"result": result}


def helm_template(provider: Provider, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`helm:template`: the objects of a chart, for the older Chart."""
    try:
        chart_options = json.loads(arguments["jsonOpts"])
    except (KeyError, TypeError, ValueError):
        raise InvalidRequest("jsonOpts is required and has to be the JSON of a chart's options") from None
    options = {
        "chart": chart_options.get("path") or chart_options.get("chart") or "",
        "version": chart_options.get("version"),
        "repositoryOpts": {"repo": chart_options.get("repo") or (chart_options.get("fetch_opts") or {}).get("repo")},
        "name": chart_options.get("release_name") or "release",
        "namespace": chart_options.get("namespace") or str(arguments.get("defaultNamespace") or provider.namespace),
        "values": chart_options.get("values") or {},
    }
    try:
        rendered = templating.template(provider, options)
        if rendered is None:
            return {"result": []}
        definitions = [] if chart_options.get("skip_crd_rendering") else rendered.definitions
        result = manifests.normalized([*definitions, *rendered.objects], options["namespace"], provider.namespaced)
    except (manifests.InvalidManifest, charts.InvalidChart, charts.ChartUnavailable) as error:
        raise InvalidRequest(str(error)) from None
    return {"result": result}


def kustomize(_provider: Provider, _arguments: Mapping[str, Any]) -> dict[str, Any]:
    raise InvalidRequest(
        "the stand-in provider cannot build kustomizations. Build them beforehand (`kubectl kustomize`) and use "
        "yaml.v2.ConfigFile, or install the official kubernetes plugin"
    )


TABLE: Final[Mapping[str, Callable[[Provider, Mapping[str, Any]], dict[str, Any]]]] = {
    "kubernetes:yaml:decode": decode,
    "kubernetes:helm:template": helm_template,
    "kubernetes:kustomize:directory": kustomize,
}


def invoke(provider: Provider, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = TABLE.get(token)
    if function is None:
        raise InvalidRequest(
            f"the stand-in kubernetes provider has no function {token!r}; it has {', '.join(sorted(TABLE))}"
        )
    return function(provider, arguments)
