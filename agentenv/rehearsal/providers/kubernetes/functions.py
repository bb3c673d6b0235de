"""The provider's functions: manifests read from text, for programs that build their resources themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import charts, manifests, templating
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.words import Impossible


def decode(provider: Provider, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`yaml:decode`: the objects of a text, for the older ConfigFile and ConfigGroup."""
    text = arguments.get("text")
    if not isinstance(text, str):
        raise Impossible(f"text is required and has to be a string, found {type(text).__name__}")
    default = str(arguments.get("defaultNamespace") or provider.namespace)
    try:
        found = manifests.normal(manifests.parse(text, "text"), default, provider.namespaced)
    except manifests.BadManifest as error:
        raise Impossible(str(error)) from None
    return {"result": found}


def helm_template(provider: Provider, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`helm:template`: the objects of a chart, for the older Chart."""
    try:
        given = json.loads(arguments["jsonOpts"])
    except (KeyError, TypeError, ValueError):
        raise Impossible("jsonOpts is required and has to be the JSON of a chart's options") from None
    asked = {
        "chart": given.get("path") or given.get("chart") or "",
        "version": given.get("version"),
        "repositoryOpts": {"repo": given.get("repo") or (given.get("fetch_opts") or {}).get("repo")},
        "name": given.get("release_name") or "release",
        "namespace": given.get("namespace") or str(arguments.get("defaultNamespace") or provider.namespace),
        "values": given.get("values") or {},
    }
    try:
        rendered = templating.template(provider, asked)
        if rendered is None:
            return {"result": []}
        definitions = [] if given.get("skip_crd_rendering") else rendered.definitions
        found = manifests.normal([*definitions, *rendered.objects], asked["namespace"], provider.namespaced)
    except (manifests.BadManifest, charts.BadChart, charts.NotHad) as error:
        raise Impossible(str(error)) from None
    return {"result": found}


def kustomize(_provider: Provider, _arguments: Mapping[str, Any]) -> dict[str, Any]:
    raise Impossible(
        "the stand-in provider cannot build kustomizations. Build them beforehand (`kubectl kustomize`) and use "
        "yaml.v2.ConfigFile, or install the official kubernetes plugin"
    )


TABLE: Final[Mapping[str, Callable[[Provider, Mapping[str, Any]], dict[str, Any]]]] = {
    "kubernetes:yaml:decode": decode,
    "kubernetes:helm:template": helm_template,
    "kubernetes:kustomize:directory": kustomize,
}


def invoke(provider: Provider, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    work = TABLE.get(token)
    if work is None:
        raise Impossible(
            f"the stand-in kubernetes provider has no function {token!r}; it has {', '.join(sorted(TABLE))}"
        )
    return work(provider, arguments)
