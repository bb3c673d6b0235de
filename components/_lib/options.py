"""What a component passes down to its children, and what it hands out."""

from collections.abc import Callable, Sequence
from typing import Any

import pulumi

Child = Callable[..., pulumi.ResourceOptions]


def children_of(component: pulumi.ComponentResource, opts: pulumi.ResourceOptions | None) -> Child:
    """How the component's children are given their options.

    Provider, protection and transforms reach a child through its parent, and so do the component's aliases; what the
    component depends on does not, so that a child would be made before it.
    """
    given = pulumi.ResourceOptions(parent=component, depends_on=opts.depends_on if opts else None)

    def child(more: pulumi.ResourceOptions | None = None) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(given, more)

    return child


def inner_of(component: pulumi.ComponentResource) -> Child:
    """How children are given their options that come after another child, and so after whatever that one waited for.

    A component that is waited for stands for all of its children, at each place where it is said: said for each of a
    hundred policies, it would cost more than the policies.
    """
    return children_of(component, None)


def known_after(value: str, resources: Sequence[pulumi.Resource]) -> pulumi.Output[str]:
    """A value that is known already, for whoever has to wait for these."""

    async def now(of: Any) -> Any:
        return of

    return pulumi.Output(now(set(resources)), now(value), now(True))


def outputs_of(component: pulumi.ComponentResource) -> dict[str, object]:
    """The component's outputs, under the names that its schema gives them in every language."""
    return {_camel(name): getattr(component, name) for name in type(component).__annotations__}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
