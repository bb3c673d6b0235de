"""The controller of sandboxes, with settings that tests change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.components.sandboxes.agent_sandbox import AgentSandbox
from tests.fast.components.shapes import planned

if TYPE_CHECKING:
    import pulumi


def agent_sandbox(name: str = "sandboxes", opts: pulumi.ResourceOptions | None = None, **settings: Any) -> AgentSandbox:
    """The controller as the release has it; the settings are those of a stack file."""
    return AgentSandbox(name, planned({"cluster": {"sandboxController": settings}}).sandbox_controller, opts)
