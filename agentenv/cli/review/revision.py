"""A revision of the repository: which commit a name means, its files in a folder of their own, what differs from it."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from agentenv.cli.main import Refusal


def commit(root: Path, revision: str) -> str:
    """The commit that a branch, tag or hash names."""
    if revision.startswith("-"):
        raise Refusal(f"'{revision}' is not a revision")
    ended = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()
        raise Refusal(
            f"git knows no revision '{revision}' here{': ' + said if said else ''}; "
            "in a pipeline, check out with the whole history"
        )
    return ended.stdout.decode().strip()


def unpack(root: Path, of_commit: str, folder: Path) -> Path:
    """The files of a commit, in a folder; nothing of the working tree is touched."""
    archived = _git(root, "archive", "--format=tar", of_commit)
    if archived.returncode:
        raise Refusal(f"git cannot unpack {of_commit}: {archived.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def text_of(root: Path, of_commit: str, name: str) -> str | None:
    """A file of a commit; None where it has none of that name."""
    shown = _git(root, "show", f"{of_commit}:./{name}")
    return None if shown.returncode else shown.stdout.decode(errors="replace")


def changed_files(root: Path, of_commit: str, *folders: str) -> list[str]:
    """The files under some folders that are not as they were in a commit, those that git does not know yet included."""
    differing = _git(root, "diff", "--name-only", "--relative", of_commit, "--", *folders)
    unknown = _git(root, "ls-files", "--others", "--exclude-standard", "--", *folders)
    lines = (differing.stdout + unknown.stdout).decode(errors="replace").splitlines()
    return sorted(set(lines))


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
    except FileNotFoundError:
        raise Refusal("git is needed to compare with another revision, and there is none on PATH") from None
