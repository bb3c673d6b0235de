"""The resource requests of controllers, for the program and for estimates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Amounts:
    """CPU and memory as Kubernetes quantities."""

    cpu: str
    memory: str


# With Fargate's overhead this is exactly a billed size: 0.5 vCPU and 1 GB.
KARPENTER = Amounts("500m", "768Mi")
