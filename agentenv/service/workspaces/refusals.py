"""Why an operation on a workspace is refused, by whichever backend."""

from __future__ import annotations

from agentenv.core.workspaces.leases import LeaseRefused
from agentenv.core.workspaces.workspace import CreateRequest, Workspace
from agentenv.service.http.problems import Problem


def refuse_deleting(workspace: Workspace) -> None:
    """Raise a `Problem` for a workspace that is being deleted."""
    if workspace.state == "deleting":
        raise Problem("wrong-state", f"{workspace.id} is being deleted", "wait until it is gone", retry_after=2)


def refuse_create_while_deleting(workspace: Workspace) -> None:
    """Raise a `Problem` for a request for a workspace that is being deleted."""
    if workspace.state == "deleting":
        raise Problem(
            "wrong-state",
            f"{workspace.id} is being deleted",
            "repeat the request when it is gone: it is restored on its retained data",
            retry_after=2,
        )


def refuse_different_request(existing: Workspace, request: CreateRequest) -> None:
    """Raise a `Problem` where a workspace was created with the same key by a different request."""
    if existing.key == request.fingerprint:
        return
    if existing.state == "deleted":
        raise Problem(
            "key-reused",
            f"{existing.id} was created with this key by a different request; it was deleted, and its data is retained",
            f"restore it by POST to /v1/workspaces/{existing.id}/resume, or use another key",
            workspace=existing.id,
        )
    raise Problem(
        "key-reused",
        f"{existing.id} was created with this key by a different request",
        "repeat the first request, change the workspace by PATCH, or use another key",
        workspace=existing.id,
    )


def refuse_attach(workspace: Workspace) -> None:
    """Raise a `Problem` for a lease on a workspace that does not run."""
    if workspace.state == "running":
        return
    suspended = workspace.state in {"suspending", "suspended"}
    raise Problem(
        "wrong-state",
        f"{workspace.id} is {workspace.state}",
        "resume it first: POST to its /resume" if suspended else "wait until it is running",
        retry_after=None if suspended else 2,
    )


def lease_refused(error: LeaseRefused) -> Problem:
    """Return the problem of a lease that another one excludes."""
    return Problem("busy", str(error), "wait until the lease is released or expires", retry_after=5)


def no_sandbox(id_: str) -> Problem:
    """Return the problem of a workspace that has no sandbox yet."""
    return Problem("wrong-state", f"{id_} has no sandbox yet", "repeat the request when it has one", retry_after=2)


def no_room_for_size(workspace: Workspace, size: object) -> Problem:
    """Return the problem of a size that the class's quota denies."""
    detail = f"the class has no room for {workspace.id} in size {size}"
    return Problem("no-room", detail, "delete unused workspaces, or choose a smaller size", retry_after=30)


def pool_empty(why: str) -> Problem:
    """Return the problem of a request that does not allow a cold start."""
    return Problem(
        "pool-empty",
        f"{why}, and the request does not allow a cold start",
        "repeat the request in a few seconds, or without `start: warm`",
        retry_after=5,
    )
