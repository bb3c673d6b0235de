"""What the controllers of the platform are given, where no setting says it: by the program, and in estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.settings.whole import Settings


@dataclass(frozen=True)
class Amounts:
    """Cores and memory, as Kubernetes writes them."""

    cpu: str
    memory: str


# With what Fargate adds it is just the size that is paid for: half a core and one gigabyte.
KARPENTER = Amounts("500m", "768Mi")


def replicas_of_karpenter(settings: Settings) -> int:
    """How many there are of it, of which one works."""
    return settings.capacity.controllers
