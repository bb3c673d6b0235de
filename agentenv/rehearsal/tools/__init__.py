"""The tools of the engine: the Pulumi CLI, its Python language host and its plugins.

What is installed wins. What is missing is built from pinned modules (toolbox.py) or, for language host and provider
plugins, replaced by a stand-in of ours (plugins.py, language_host.py).
"""

from __future__ import annotations

from agentenv.rehearsal.tools.errors import ToolError
from agentenv.rehearsal.tools.progress import Progress, telling
from agentenv.rehearsal.tools.toolbox import Tool, Toolbox, ensure, survey

__all__ = ["Progress", "Tool", "ToolError", "Toolbox", "ensure", "survey", "telling"]
