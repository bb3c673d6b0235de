"""The provider's functions: manifests read from text, for programs that build their resources themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rehearsal.kubernetes import manifests
from rehearsal.kubernetes.provider import Provider
from rehearsal.kubernetes.words import Impossible


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


def kustomize(_provider: Provider, _arguments: Mapping[str, Any]) -> dict[str, Any]:
    raise Impossible(
        "the stand-in provider cannot build kustomizations. Build them beforehand (`kubectl kustomize`) and use "
        "yaml.v2.ConfigFile, or install the official kubernetes plugin"
    )


TABLE: Final[Mapping[str, Callable[[Provider, Mapping[str, Any]], dict[str, Any]]]] = {
    "kubernetes:yaml:decode": decode,
    "kubernetes:kustomize:directory": kustomize,
}


def invoke(provider: Provider, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    work = TABLE.get(token)
    if work is None:
        raise Impossible(
            f"the stand-in kubernetes provider has no function {token!r}; it has {', '.join(sorted(TABLE))}"
        )
    return work(provider, arguments)
