"""Resource options for the children of a component, and the outputs that it registers."""

from collections.abc import Callable, Sequence
from typing import Any

import pulumi
from pydantic.alias_generators import to_camel

# Returns the options of one child; `more`, if given, is merged into them.
ChildOptions = Callable[..., pulumi.ResourceOptions]


def child_options(component: pulumi.ComponentResource, opts: pulumi.ResourceOptions | None) -> ChildOptions:
    """Return a function that builds the options of the component's children.

    A child inherits provider, protection, transforms and aliases through its parent. It does not inherit `depends_on`:
    without this function a child would be created before what its component depends on.
    """
    inherited = pulumi.ResourceOptions(parent=component, depends_on=opts.depends_on if opts else None)

    def child(more: pulumi.ResourceOptions | None = None) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(inherited, more)

    return child


def child_options_without_dependencies(component: pulumi.ComponentResource) -> ChildOptions:
    """Return the same for children that depend on another child, and through it on what the component depends on.

    A dependency on a component counts as one on each of its children, for each resource that declares it. Repeated for
    a hundred admission policies, it would cost more than the policies.
    """
    return child_options(component, None)


def output_after(value: str, resources: Sequence[pulumi.Resource]) -> pulumi.Output[str]:
    """Return a known value as an output that depends on these resources."""

    async def resolved(result: Any) -> Any:
        return result

    return pulumi.Output(resolved(set(resources)), resolved(value), resolved(True))


def component_outputs(component: pulumi.ComponentResource) -> dict[str, object]:
    """Return the component's outputs under their names in the schema, which are the same in every language."""
    return {to_camel(name): getattr(component, name) for name in type(component).__annotations__}
