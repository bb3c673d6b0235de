"""List botocore's services, and read their models from files, once per process.

Each botocore session does so again, and moto and boto3 create many sessions. Without this cache the model of EC2, a
megabyte, is parsed a dozen times before the first response, and a client looks at 1,300 files. Each caller still gets a
copy, because moto changes it.
"""

from __future__ import annotations

import json
import marshal
import threading
from pathlib import Path
from typing import Any, ClassVar

from botocore.loaders import JSONFileLoader, Loader


class _OnceReader(JSONFileLoader):
    """A cache of the parsed files for all sessions, in the form that is fastest to copy."""

    _cache: ClassVar[dict[str, bytes]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def _load_file(self, full_path: str, open_method: Any) -> Any:
        with self._lock:
            if full_path not in self._cache:
                if not Path(full_path).is_file():
                    return None  # not cached: such a file may still appear
                with open_method(full_path, "rb") as file:
                    # Plain dicts keep their order, and load in half the time of OrderedDict.
                    self._cache[full_path] = marshal.dumps(json.loads(file.read()))
            return marshal.loads(self._cache[full_path])  # noqa: S302 - written by ourselves a moment ago


_services: dict[tuple[str, ...], list[str]] = {}
_list_services = Loader.list_available_services


def _list_once(loader: Loader, type_name: str) -> list[str]:
    """Return the services that have a file of a type."""
    key = (*loader.search_paths, type_name)
    if key not in _services:
        _services[key] = _list_services(loader, type_name)
    return [*_services[key]]


def read_once() -> None:
    """Install the cache. Call it before the first session is created; a second call does nothing."""
    Loader.FILE_LOADER_CLASS = _OnceReader
    Loader.list_available_services = _list_once  # pyright: ignore[reportAttributeAccessIssue] - its first name is self
