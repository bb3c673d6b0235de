"""Tools for the files of a workspace: read, write, edit, list and search them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from agentenv.client.connect_json import SandboxError
from agentenv.client.sandbox import AsyncSandbox, Command
from agentenv.service.http.problems import Problem
from agentenv.service.mcp.calls import Call, CallContext, tool
from agentenv.service.mcp.commands import Id, collect
from agentenv.service.mcp.output import lines_of

MAX_FILE = 1 << 20
MAX_TEXT = 200_000  # within the limit of request bodies
MAX_LINES, MAX_ENTRIES, MAX_MATCHES = 2000, 500, 200
_SEARCH_SECONDS = 30.0

Path = Annotated[str, Field(min_length=1, max_length=4096, description="Relative paths start at the home.")]


class FileText(BaseModel):
    """Lines of a file."""

    text: str
    first_line: int
    lines: int
    total_lines: int
    note: str = ""


class FileWritten(BaseModel):
    """A file that was written."""

    path: str
    bytes: int
    replaced: int | None = None


class FileEntry(BaseModel):
    """A file or folder."""

    path: str
    kind: str
    size: int
    modified: str


class FileList(BaseModel):
    """Files and folders."""

    entries: list[FileEntry]
    note: str = ""


class Matches(BaseModel):
    """Lines that match."""

    lines: list[str]
    note: str = ""


@tool
async def read_file(
    workspace: Id,
    path: Path,
    context: CallContext,
    first_line: Annotated[int, Field(ge=1)] = 1,
    lines: Annotated[int, Field(ge=1, le=MAX_LINES)] = MAX_LINES,
) -> FileText:
    """Return lines of a text file."""
    sandbox = await Call.of(context).sandbox(workspace, "read", opened="files")
    text, is_cut = await _read(sandbox, path)
    shown, count, total = lines_of(text, first_line, lines)
    notes = [f"Only the first {MAX_FILE} bytes of the file were read."] if is_cut else []
    if first_line - 1 + count < total:
        notes.append(f"Lines {first_line} to {first_line - 1 + count} of {total} are shown; read on with `first_line`.")
    return FileText(text=shown, first_line=first_line, lines=count, total_lines=total, note=" ".join(notes))


@tool
async def write_file(
    workspace: Id,
    path: Path,
    text: Annotated[str, Field(max_length=MAX_TEXT, description="The whole content.")],
    context: CallContext,
) -> FileWritten:
    """Create or replace a text file, with the folders above it."""
    sandbox = await Call.of(context).sandbox(workspace, opened="files")
    return await _write(sandbox, path, text)


@tool
async def edit_file(
    workspace: Id,
    path: Path,
    old: Annotated[str, Field(min_length=1, max_length=MAX_TEXT, description="The text to replace, as it stands.")],
    new: Annotated[str, Field(max_length=MAX_TEXT)],
    context: CallContext,
    *,
    every: Annotated[bool, Field(description="Replace every occurrence; otherwise there must be exactly one.")] = False,
) -> FileWritten:
    """Replace a text in a file."""
    sandbox = await Call.of(context).sandbox(workspace, opened="files")
    text, is_cut = await _read(sandbox, path)
    if is_cut:
        raise Problem("malformed", f"{path} has more than {MAX_FILE} bytes", "edit it with `run` and a program")
    count = text.count(old)
    if count == 0:
        raise Problem("malformed", f"`old` does not occur in {path}", "read the file, and copy the text exactly")
    if count > 1 and not every:
        raise Problem("malformed", f"`old` occurs {count} times in {path}", "name more of its lines, or set `every`")
    result = await _write(sandbox, path, text.replace(old, new))
    return result.model_copy(update={"replaced": count})


@tool
async def list_files(
    workspace: Id,
    context: CallContext,
    path: Path = ".",
    depth: Annotated[int, Field(ge=1, le=10, description="Levels of folders.")] = 1,
) -> FileList:
    """List files and folders."""
    sandbox = await Call.of(context).sandbox(workspace, "read", opened="files")
    found = await sandbox.list(path, depth)
    rows = [FileEntry(path=row.path, kind=row.kind, size=row.size, modified=row.modified) for row in found]
    note = (
        f"{len(rows) - MAX_ENTRIES} of {len(rows)} entries were cut; list a folder below."
        if len(rows) > MAX_ENTRIES
        else ""
    )
    return FileList(entries=rows[:MAX_ENTRIES], note=note)


@tool
async def search_files(
    workspace: Id,
    pattern: Annotated[str, Field(min_length=1, max_length=1000, description="An extended regular expression.")],
    context: CallContext,
    path: Path = ".",
    names: Annotated[str | None, Field(max_length=200, description="Only files of such names, as `*.py`.")] = None,
) -> Matches:
    """Search the lines of text files, with their file and line number."""
    sandbox = await Call.of(context).sandbox(workspace, "read", opened="files")
    options = [f"--include={names}"] if names else []
    argv = ("grep", "-rnIE", "--exclude-dir=.git", *options, "-e", pattern, "--", path)
    result = await collect(sandbox.start(Command(argv, timeout=_SEARCH_SECONDS)), _SEARCH_SECONDS + 1)
    # grep ends with 1 where nothing matches, and with 2 where it could not read a file, too.
    if result.exit_code not in {0, 1} and not result.stdout:
        detail = result.stderr.strip() or f"it took more than {_SEARCH_SECONDS:.0f} s"
        raise Problem(
            "malformed", f"the search failed: {detail[:500]}", "correct the pattern, or search a folder below"
        )
    rows = [row if len(row) <= 500 else f"{row[:500]} [... line cut]" for row in result.stdout.splitlines()]
    notes = [f"Only the first {MAX_MATCHES} lines are shown."] if len(rows) > MAX_MATCHES else []
    notes += ["The search took too long and is not complete."] if result.exit_code is None else []
    return Matches(lines=rows[:MAX_MATCHES], note=" ".join(notes))


async def _read(sandbox: AsyncSandbox, path: str) -> tuple[str, bool]:
    """Return the text of a file, and whether it has more than may be read."""
    data = bytearray()
    async for piece in sandbox.download(path):
        data += piece
        if len(data) > MAX_FILE:
            break
    if b"\0" in data[:8192]:
        raise Problem("malformed", f"{path} is no text file", "look at it with `run` and a program")
    return data[:MAX_FILE].decode(errors="replace"), len(data) > MAX_FILE


async def _write(sandbox: AsyncSandbox, path: str, text: str) -> FileWritten:
    data = text.encode(errors="surrogateescape")
    try:
        await sandbox.write(path, data)
    except SandboxError as failure:
        if failure.status == 507:
            raise Problem("no-room", "the home is full", "delete files, or ask for more storage") from failure
        raise
    return FileWritten(path=path, bytes=len(data))
