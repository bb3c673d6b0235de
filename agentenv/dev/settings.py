"""The classes of `agentenv dev` where no stack file names others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.config import read

if TYPE_CHECKING:
    from agentenv.config import Settings

ENVIRONMENT = "dev"
# Sandboxes have this machine's programs, so no image is fetched from anywhere.
_IMAGE = "registry.example.com/{}@sha256:" + "0" * 64
_CLASS: dict[str, Any] = {
    "image": _IMAGE.format("sandbox"),
    "resources": {"cpu": "250m", "memory": "1Gi", "burst": {"cpu": "2", "memory": "4Gi"}},
    "sizes": {
        "medium": {"cpu": "500m", "memory": "2Gi", "burst": {"cpu": "4", "memory": "8Gi"}},
        "large": {"cpu": "1", "memory": "4Gi", "burst": {"cpu": "8", "memory": "16Gi"}},
    },
    "capabilities": [],
    "suspendAfter": "20m",
}
_CONFIG: dict[str, Any] = {
    "aws:region": "us-east-1",
    # There is no cluster; a documentation range (RFC 5737) satisfies the constraints of one.
    "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
    "agent-environment:sandboxClasses": [
        {"name": "standard", **_CLASS, "storage": {"kind": "shared", "size": "5Gi"}},
        # The template of the `e2b` clients that name none, with the home that programs written for them expect.
        {"name": "base", **_CLASS, "storage": {"kind": "shared", "size": "5Gi", "mountPath": "/home/user"}},
    ],
    "agent-environment:service": {
        "image": _IMAGE.format("workspace-service"),
        "workspaced": {"image": _IMAGE.format("workspaced")},
        # All callers are one person, and suites of tests run at once with one key.
        "requestsPerMinute": 60_000,
    },
}


def default_settings() -> Settings:
    """Return the settings of an environment with the classes `standard` and `base`."""
    return read(_CONFIG, ENVIRONMENT)
