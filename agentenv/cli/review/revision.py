"""Read a revision of the repository: its commit, its files, and the files that differ from it."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from agentenv.cli.main import CommandError


def commit(root: Path, revision: str) -> str:
    """Return the commit of a branch, tag or hash."""
    if revision.startswith("-"):
        raise CommandError(f"'{revision}' is not a revision")
    ended = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if ended.returncode:
        detail = ended.stderr.decode(errors="replace").strip()
        raise CommandError(
            f"git has no revision '{revision}' here{': ' + detail if detail else ''}; "
            "in a pipeline, check out the whole history"
        )
    return ended.stdout.decode().strip()


def unpack(root: Path, of_commit: str, folder: Path) -> Path:
    """Extract the files of a commit into a folder, without a change to the working tree."""
    archived = _git(root, "archive", "--format=tar", of_commit)
    if archived.returncode:
        raise CommandError(f"git cannot unpack {of_commit}: {archived.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def file_text(root: Path, of_commit: str, name: str) -> str | None:
    """Return the content of a file of a commit, None if it does not exist."""
    shown = _git(root, "show", f"{of_commit}:./{name}")
    return None if shown.returncode else shown.stdout.decode(errors="replace")


def changed_files(root: Path, of_commit: str, *folders: str) -> list[str]:
    """Return the files under the folders that differ from a commit, with untracked files."""
    differing = _git(root, "diff", "--name-only", "--relative", of_commit, "--", *folders)
    unknown = _git(root, "ls-files", "--others", "--exclude-standard", "--", *folders)
    lines = (differing.stdout + unknown.stdout).decode(errors="replace").splitlines()
    return sorted(set(lines))


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
    except FileNotFoundError:
        raise CommandError("git is not on PATH, and is needed to compare with another revision") from None
