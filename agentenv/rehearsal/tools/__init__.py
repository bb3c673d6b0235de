"""The tools of the engine: the Pulumi CLI, its Python language host and its plugins.

Installed tools are used first. Missing ones are built from pinned modules (toolbox.py); a missing language host or
provider plugin is replaced by a stand-in (plugins.py, language_host.py).
"""

from __future__ import annotations

from agentenv.rehearsal.tools.errors import ToolError
from agentenv.rehearsal.tools.progress import Progress, terminal_progress
from agentenv.rehearsal.tools.toolbox import Tool, Toolbox, ensure, survey

__all__ = ["Progress", "Tool", "ToolError", "Toolbox", "ensure", "survey", "terminal_progress"]
