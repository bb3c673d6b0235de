"""The resource requests of the metering stack, which grow with the number of sandboxes."""

from __future__ import annotations

from dataclasses import dataclass

# Of a sandbox sixteen series are scraped and thirteen recorded. Some begin anew whenever it is adopted, put to sleep or
# moved, and the old ones stay in memory for two hours: three times as many, of four kilobytes each, are 0.4 MiB.
_MEBIBYTES_A_SANDBOX = 0.4
_LEAST, _STEP = 384, 64


@dataclass(frozen=True)
class Amounts:
    """CPU and memory requests, and the memory limit."""

    cpu: str
    memory: str
    most_memory: str

    def resources(self) -> dict[str, dict[str, str]]:
        """Return the resources of a container; CPU is not limited."""
        return {
            "requests": {"cpu": self.cpu, "memory": self.memory},
            "limits": {"memory": self.most_memory},
        }


@dataclass(frozen=True)
class Sizes:
    """The amounts of each component, and the retention of Prometheus."""

    prometheus: Amounts
    opencost: Amounts
    grafana: Amounts
    retention: str
    disk: str  # the most that Prometheus keeps
    disk_limit: str  # at which the kubelet evicts it


def sizes(sandboxes: int) -> Sizes:
    """Return the sizes for a maximum number of concurrent sandboxes."""
    needed = _LEAST + _MEBIBYTES_A_SANDBOX * sandboxes
    memory = max(512, -(-int(needed) // _STEP) * _STEP)
    large = sandboxes > 500
    return Sizes(
        # A promise that is also the limit: memory that is not there when it is needed loses the last two hours.
        prometheus=Amounts(f"{100 + sandboxes // 10}m", f"{memory}Mi", f"{memory}Mi"),
        # It reads all of AWS's price list of the region once a day, and lets go of it again.
        opencost=Amounts("20m", "256Mi", "1Gi"),
        grafana=Amounts("20m", "192Mi", "384Mi"),
        retention="35d",
        disk="16GB" if large else "6GB",
        disk_limit="20Gi" if large else "8Gi",
    )
