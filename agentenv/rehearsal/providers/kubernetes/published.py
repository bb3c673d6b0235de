"""Published manifests of which the rehearsal's tools have a copy: the files of pinned releases.

They are the same files, out of the same release's module, so an address that is pinned is read from there: a rehearsal
needs no network once its tools are there.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from agentenv.core.pinned_versions import releases
from agentenv.rehearsal.tools import catalog, toolbox
from agentenv.rehearsal.tools.errors import UnknownTool

SUFFIX: Final = "-manifests"  # of the tools that are folders of manifests


def local_copy(address: str) -> Path | None:
    """Return the local copy of a published file, if it belongs to a pinned release that has been fetched."""
    for release, pinned in releases().manifests.items():
        base = f"{pinned.address.rstrip('/')}/"
        folder = _folder(f"{release}{SUFFIX}", pinned.version) if address.startswith(base) else None
        if folder is not None and (file := folder / address.removeprefix(base)).is_file():
            return file
    return None


@functools.cache
def _folder(tool: str, version: str) -> Path | None:
    try:
        row = catalog.recipe(tool)
    except UnknownTool:
        return None
    return toolbox.find(row).path if row.version == version else None
