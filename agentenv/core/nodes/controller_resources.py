"""What a controller of the platform is given: by the program, and in estimates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Amounts:
    """Cores and memory, as Kubernetes writes them."""

    cpu: str
    memory: str


# With what Fargate adds it is just the size that is paid for: half a core and one gigabyte.
KARPENTER = Amounts("500m", "768Mi")
