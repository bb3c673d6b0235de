"""botocore's descriptions of AWS's services, read from their files once a process.

Each botocore session reads them anew, and moto and boto3 make a session wherever they need one: the description of EC2
alone, a megabyte, is otherwise unpacked and parsed a dozen times before the first call is answered. Everyone still gets
a copy of their own, because moto writes to what it was given.
"""

from __future__ import annotations

import json
import marshal
import threading
from pathlib import Path
from typing import Any, ClassVar

from botocore.loaders import JSONFileLoader, Loader


class _OnceReader(JSONFileLoader):
    """Remembers what each file says, for all sessions, in the form that is copied fastest."""

    _known: ClassVar[dict[str, bytes]] = {}
    _reading: ClassVar[threading.Lock] = threading.Lock()

    def _load_file(self, full_path: str, open_method: Any) -> Any:
        with self._reading:
            if full_path not in self._known:
                if not Path(full_path).is_file():
                    return None  # not remembered: such a file may still come
                with open_method(full_path, "rb") as file:
                    # Plain dicts keep their order, and are read in half the time that ordered ones take.
                    self._known[full_path] = marshal.dumps(json.loads(file.read()))
            return marshal.loads(self._known[full_path])  # noqa: S302 - written by ourselves a moment ago


def read_once() -> None:
    """From now on each file is read once. To be called before the first session is made; a second call does nothing."""
    Loader.FILE_LOADER_CLASS = _OnceReader
