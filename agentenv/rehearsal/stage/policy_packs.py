"""Policy packs on a stage: folders that run on the current Python, and the results that they record.

A pack names the virtual environment beside it, which may be another than the rehearsal's. So each pack gets a folder
of its own with the same program. Its configuration names the file in which it records its results.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

VERDICTS = ("passed", "failed", "indeterminate", "waived")


@dataclass(frozen=True)
class Packs:
    """Packs that are ready to run."""

    folders: tuple[Path, ...] = ()

    @property
    def options(self) -> list[str]:
        """Return the engine's options that run them in an update or a preview."""
        return [
            option
            for folder in self.folders
            for option in ("--policy-pack", str(folder), "--policy-pack-config", str(folder / "config.json"))
        ]

    def counts_by_verdict(self) -> dict[str, int]:
        """Return the sum of the results of the last run; zeros for a pack that did not complete."""
        counts: Counter[str] = Counter(dict.fromkeys(VERDICTS, 0))
        for results in self._records():
            counts.update({name: int(results[name]) for name in VERDICTS})
        return dict(counts)

    def findings(self) -> list[dict[str, str]]:
        """Return the failed and indeterminate findings of the last run."""
        return [finding for results in self._records() for finding in results["findings"]]

    def _records(self) -> Iterator[dict[str, Any]]:
        for folder in self.folders:
            record = folder / "record.json"
            if record.is_file():
                yield json.loads(record.read_text(encoding="utf-8"))

    @property
    def completed(self) -> bool:
        """Return whether every pack completed."""
        return all((folder / "record.json").is_file() for folder in self.folders)


def prepare(sources: Sequence[Path], into: Path) -> Packs:
    """Prepare the packs of those folders under another folder; a pack is named after its folder."""
    folders: list[Path] = []
    for source in sources:
        folder = into / source.name
        folder.mkdir(parents=True)
        project = yaml.safe_load((source / "PulumiPolicy.yaml").read_text(encoding="utf-8"))
        project["runtime"] = {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}}
        (folder / "PulumiPolicy.yaml").write_text(yaml.safe_dump(project, sort_keys=False), encoding="utf-8")
        (folder / "__main__.py").symlink_to((source / "__main__.py").resolve())
        config = {source.name: {"record": str(folder / "record.json")}}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        folders.append(folder)
    return Packs(tuple(folders))
