"""The errors of finding or building a tool, each with a message for the user.

A message contains what was found, what is needed and what to do. Whoever catches `ToolError` may print it as it is.
"""

from __future__ import annotations


class ToolError(Exception):
    """A tool is not available; the message says why and what to do."""


class UnknownTool(ToolError):
    """No recipe has that name."""


class NoSources(ToolError):
    """The tool is built from a checkout, and this installation is none."""


class NoCompiler(ToolError):
    """There is no Go compiler that is new enough."""


class DownloadFailed(ToolError):
    """Go could not fetch the modules."""


class DiskFull(ToolError):
    """There is not enough disk space."""


class CompilerKilled(ToolError):
    """The compiler was killed; usually the machine ran out of memory."""


class CacheUnwritable(ToolError):
    """The cache folder is not writable."""


class BuildFailed(ToolError):
    """The compiler failed for another reason."""
