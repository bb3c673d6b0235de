"""What can go wrong while a tool is found or built, each with words for the person who waits for it.

A message says what was found, what is needed and what to do. Whoever catches `ToolError` may print it as it is.
"""

from __future__ import annotations


class ToolError(Exception):
    """A tool cannot be had; the message says why and what to do."""


class UnknownTool(ToolError):
    """A name that no recipe has."""


class NoCompiler(ToolError):
    """There is no Go compiler that is new enough."""


class DownloadFailed(ToolError):
    """Go could not fetch the modules."""


class DiskFull(ToolError):
    """There is not enough room, or there was not when it came to writing."""


class CompilerKilled(ToolError):
    """The compiler was ended from outside; nearly always the machine ran out of memory."""


class CacheUnwritable(ToolError):
    """The cache folder cannot be written."""


class BuildFailed(ToolError):
    """The compiler said no, for a reason that is none of the others."""
