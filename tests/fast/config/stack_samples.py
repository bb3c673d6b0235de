"""Sample configurations: a valid one, and functions to change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenv.config import Mistake, Mistakes, Settings, read

IMAGE = f"registry.example.com/sandbox@sha256:{'ab' * 32}"
OTHER_IMAGE = f"registry.example.com/sandbox@sha256:{'cd' * 32}"
PREFIX = "agent-environment:"
# Who reaches the API server, which every stack file says.
ACCESS: dict[str, Any] = {f"{PREFIX}cluster": {"publicAccessCidrs": ["203.0.113.0/24"]}}


# A class that shares its node's kernel, and is for callers that were vetted.
VETTED: dict[str, Any] = {"tier": "verified", "claimableBy": {"roles": ["operator"]}}


def sandbox(name: str = "standard", **changes: Any) -> dict[str, Any]:
    """A sound class with some settings changed."""
    return {"name": name, "image": IMAGE, **changes}


def fargate(name: str = "batch", **changes: Any) -> dict[str, Any]:
    """A sound class on Fargate with some settings changed."""
    return sandbox(name, **{"tier": "untrusted", "compute": "fargate", **changes})


def config(sections: Mapping[str, Any] | None = None, region: str = "us-east-1") -> dict[str, Any]:
    """A sound configuration with these sections, with a cluster that can be reached."""
    cluster = (sections or {}).get("cluster") or {}
    if isinstance(cluster, Mapping) and not {"existing", "publicAccessCidrs"} & set(cluster):
        sections = {**(sections or {}), "cluster": {**cluster, **ACCESS[f"{PREFIX}cluster"]}}
    return {"aws:region": region, **{f"{PREFIX}{name}": value for name, value in (sections or {}).items()}}


def settings(sections: Mapping[str, Any] | None = None, environment: str = "dev") -> Settings:
    """The settings of these sections; the test fails if there are mistakes."""
    return read(config(sections), environment)


def mistakes(sections: Mapping[str, Any] | None = None, environment: str = "dev") -> list[Mistake]:
    """The mistakes in these sections."""
    return mistakes_of(config(sections), environment)


def mistakes_of(flat: Mapping[str, Any], environment: str = "dev") -> list[Mistake]:
    """The mistakes in a flat configuration; none when it is sound."""
    try:
        read(flat, environment)
    except Mistakes as found:
        return found.mistakes
    return []
