"""Policy packs on a stage: folders that run on this machine's own Python, and what they recorded of a run.

A pack names the virtual environment beside it, which need not be the one that a rehearsal runs in; so a pack on a stage
is a folder of its own with the same program. What a pack records it is told to by its configuration, under its name.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

FIGURES = ("passed", "failed", "indeterminate", "waived")


@dataclass(frozen=True)
class Packs:
    """Packs that are ready to be run."""

    folders: tuple[Path, ...] = ()

    @property
    def options(self) -> list[str]:
        """What an update or a preview is called with to run them."""
        return [
            option
            for folder in self.folders
            for option in ("--policy-pack", str(folder), "--policy-pack-config", str(folder / "config.json"))
        ]

    def figures(self) -> dict[str, int]:
        """What the last run recorded, all packs together; nothing at all where a pack did not get to its end."""
        found: Counter[str] = Counter(dict.fromkeys(FIGURES, 0))
        for folder in self.folders:
            record = folder / "record.json"
            if record.is_file():
                said = json.loads(record.read_text(encoding="utf-8"))
                found.update({name: int(said[name]) for name in FIGURES})
        return dict(found)

    @property
    def recorded(self) -> bool:
        """Whether every pack got to its end."""
        return all((folder / "record.json").is_file() for folder in self.folders)


def staged(sources: Sequence[Path], into: Path) -> Packs:
    """The packs of those folders, made ready under another; a folder's name is the pack's."""
    folders: list[Path] = []
    for source in sources:
        folder = into / source.name
        folder.mkdir(parents=True)
        described = yaml.safe_load((source / "PulumiPolicy.yaml").read_text(encoding="utf-8"))
        described["runtime"] = {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}}
        (folder / "PulumiPolicy.yaml").write_text(yaml.safe_dump(described, sort_keys=False), encoding="utf-8")
        (folder / "__main__.py").symlink_to((source / "__main__.py").resolve())
        config = {source.name: {"record": str(folder / "record.json")}}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        folders.append(folder)
    return Packs(tuple(folders))
