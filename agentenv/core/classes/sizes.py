"""The sizes of a class: `small` is its `resources`, which every warm sandbox has; larger ones are declared.

A claimed sandbox is resized in place, so a size has CPU and memory and no disk, and all sizes have one QoS class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentenv.config.sections.classes import Resources, SandboxClass, Size, SizeName

SMALL: SizeName = "small"


def sizes_of(sandbox_class: SandboxClass) -> dict[SizeName, Resources]:
    """Return the resources of each size of a class, the smallest first."""
    own = sandbox_class.resources
    sizes: dict[SizeName, Resources] = {SMALL: own}
    larger: dict[SizeName, Size | None] = {"medium": sandbox_class.sizes.medium, "large": sandbox_class.sizes.large}
    for name, size in larger.items():
        if size is not None:
            sizes[name] = own.model_copy(update={"cpu": size.cpu, "memory": size.memory, "burst": size.burst})
    return sizes


def largest_size(sandbox_class: SandboxClass) -> SizeName:
    """Return the name of the largest size of a class."""
    return list(sizes_of(sandbox_class))[-1]


def in_size(sandbox_class: SandboxClass, name: SizeName) -> SandboxClass:
    """Return a class whose `resources` are those of one of its sizes, for what is planned or estimated by them."""
    return sandbox_class.model_copy(update={"resources": sizes_of(sandbox_class)[name]})
