"""Arguments for the controller of sandboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fast.components.shapes import OWNERSHIP

if TYPE_CHECKING:
    import pulumi

    from agentenv.components.sandboxes.agent_sandbox import AgentSandbox


def agent_sandbox(name: str = "sandboxes", opts: pulumi.ResourceOptions | None = None, **given: Any) -> AgentSandbox:
    """The controller as the release has it, less what is given."""
    from agentenv.components.sandboxes.agent_sandbox import AgentSandbox

    args: Any = {"ownership": OWNERSHIP, "layout": given}
    return AgentSandbox(name, args, opts)
