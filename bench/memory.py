"""The most memory that a process ever had at once, by the kernel's own count.

What getrusage says of a process has the one in it that started it.
"""

from __future__ import annotations

from pathlib import Path


def peak_kib(process: int | str = "self") -> int:
    """Of a process by its number, or of this one, in KiB; 0 of one that says nothing of it."""
    said = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return next((int(line.split()[1]) for line in said.splitlines() if line.startswith("VmHWM:")), 0)
