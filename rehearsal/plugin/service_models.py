"""botocore's descriptions of AWS's services, read from their files once a process.

Each botocore session reads them anew, and moto and boto3 make a session wherever they need one: the description of EC2
alone, a megabyte, is otherwise parsed a dozen times before the first call is answered. Nobody writes to what was read
but botocore itself, which adds the same extras to the same service each time.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, ClassVar

from botocore.loaders import JSONFileLoader, Loader


class _OnceReader(JSONFileLoader):
    """Remembers what each file says, for all sessions."""

    _known: ClassVar[dict[str, Any]] = {}
    _reading: ClassVar[threading.Lock] = threading.Lock()

    def _load_file(self, full_path: str, open_method: Any) -> Any:
        with self._reading:
            if full_path not in self._known:
                if not Path(full_path).is_file():
                    return None  # not remembered: such a file may still come
                with open_method(full_path, "rb") as file:
                    # Plain dicts keep their order, and are read in half the time that ordered ones take.
                    self._known[full_path] = json.loads(file.read())
            return self._known[full_path]


def read_once() -> None:
    """From now on each file is read once. To be called before the first session is made; a second call does nothing."""
    Loader.FILE_LOADER_CLASS = _OnceReader
