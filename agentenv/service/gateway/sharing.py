"""Sharing of the ports of workspaces, and their aliases."""

from __future__ import annotations

from collections.abc import Callable, Collection

from agentenv.core.workspaces.workspace import Sharing
from agentenv.service.catalog import Catalog
from agentenv.service.gateway.access_cache import AccessCache


def sharing_of(catalog: Catalog, class_name: str) -> Collection[Sharing]:
    """Return how a class lets ports be shared; one that was removed lets none."""
    of_class = catalog.classes.get(class_name)
    return catalog.settings.sharing_of(of_class.plan.settings) if of_class is not None else ("private",)


def aliases_in(access: AccessCache | None) -> Callable[[str], tuple[str, int] | None]:
    """Return a function that returns the workspace and the default port of an alias."""

    def resolve(name: str) -> tuple[str, int] | None:
        alias = access.alias(name) if access is not None else None
        return (alias.workspace, alias.port) if alias is not None and alias.workspace else None

    return resolve
