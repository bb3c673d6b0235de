"""The prod stack file, and variants of it without one of its choices."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from agentenv.config import Settings, read

ROOT = Path(__file__).parents[4]
A = "agent-environment:"
# By the words of docs/decisions/cheapest-design.md: what is set otherwise, by section.
UNDONE: Mapping[str, Mapping[str, Any]] = {
    "one NAT gateway for all zones": {"network": {"nat": "per-zone"}},
    "no interface endpoints": {"network": {"endpoints": ["ecr.api", "ecr.dkr", "sts"]}},
    "no headroom": {"capacity": {"headroom": {"pods": 4, "cpu": "500m", "memory": "1Gi"}}},
    "families with larger nodes": {"capacity": {"families": ["m8g", "m7g", "c8g", "c7g", "m7i", "m7a"]}},
    "system nodes on Spot": {"capacity": {"system": {"capacity": "on-demand"}}},
    "one small Karpenter": {"capacity": {"controller": {"replicas": 2, "cpu": "500m"}}},
    "one sandbox controller, on a system node": {"cluster": {"sandboxController": {"replicas": 2}}},
    "pools by the hour and by claims": {
        "standard": {
            "pool": {
                "peakClaimsPerHour": 300,
                "schedules": [{"start": "07:30", "end": "10:00", "timezone": "Europe/Berlin", "size": 20}],
            }
        },
        "reviewer": {"pool": {"size": 4}},
    },
    "no dashboard in CloudWatch": {"cost": {"platformDashboard": True}},
    "metrics of 1,300 sandboxes": {
        "standard": {"maxSandboxes": 2000},
        "reviewer": {"maxSandboxes": 200},
        "untrusted": {"maxSandboxes": 50},
    },
    "two replicas of the service": {"service": {"replicas": 3}},
    "untrusted sandboxes start cold": {"untrusted": {"pool": {"size": 2}}},
    "reviewers request less": {"reviewer": {"resources": {"cpu": "250m", "memory": "512Mi"}}},
    "homes to infrequent access after a week": {"storage": {"infrequentAccessAfter": "30d"}},
    "images in ECR of the region": {"images": "registry.example.com"},
    "disks of 40 GiB": {"capacity": {"rootVolume": "50Gi"}},
}


def prod(changes: Mapping[str, Any] | None = None) -> Settings:
    """The settings of prod with some set otherwise; a class is changed by its name, images by their registry."""
    config: dict[str, Any] = deepcopy(
        yaml.safe_load((ROOT / "stacks" / "Pulumi.prod.yaml").read_text(encoding="utf-8"))["config"]
    )
    for section, values in (changes or {}).items():
        named = [class_ for class_ in config[f"{A}sandboxClasses"] if class_["name"] == section]
        if section == "images":
            for class_ in config[f"{A}sandboxClasses"]:
                class_["image"] = f"{values}/{class_['image'].rpartition('/')[2]}"
        elif named:
            named[0].update(values)
        else:
            config[f"{A}{section}"].update(values)
    return read(config, "prod")
