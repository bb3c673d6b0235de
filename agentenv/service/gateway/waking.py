"""Resume workspaces for their visitors: once for concurrent requests, in a queue that is fair by owner.

Other replicas may resume the same workspace at the same time: the writes of a resume are the same, and only the first
changes something.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable

from agentenv.core.workspaces.workspace import CreateResult, Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import KubeApiError
from agentenv.service.workspaces.create import problem_of

# A request is held at most so long; the resume continues after that.
HOLD_SECONDS = 60.0
# Of a replica. A resume takes a turn only until its start is requested: workspaces become ready beside each other.
AT_ONCE = 16
MOST_WAITING = 2_000

# The second argument is called once the start is requested, and only waiting is left.
Resume = Callable[[Workspace, Callable[[], None]], Awaitable[CreateResult]]


class Waker:
    """The running resumes of one replica."""

    def __init__(self, resume: Resume, at_once: int = AT_ONCE) -> None:
        """`resume` resumes a workspace and waits until it runs; it refuses by a `Problem`."""
        self._resume, self._free = resume, at_once
        self._wakes: dict[str, asyncio.Task[Workspace]] = {}
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # by owner, the next owner first

    async def wake(self, workspace: Workspace, hold: float = HOLD_SECONDS) -> Workspace | None:
        """Return the workspace once it runs, or None if it does not within so many seconds; the wake goes on then."""
        task = self._wakes.get(workspace.id)
        if task is None:
            if len(self._wakes) >= MOST_WAITING:
                raise Problem("no-room", "too many workspaces are waking up", "retry in a minute", retry_after=60)
            task = self._wakes[workspace.id] = asyncio.create_task(self._wake(workspace))
            task.add_done_callback(lambda _: self._wakes.pop(workspace.id, None))
            # A resume without a waiting request may fail: the next request reports why.
            task.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        done, _ = await asyncio.wait([task], timeout=hold)
        return task.result() if done else None

    async def close(self) -> None:
        """Stop waiting; wakes that were written go on without this replica."""
        tasks = list(self._wakes.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wake(self, workspace: Workspace) -> Workspace:
        await self._take_turn(workspace.owner)
        with contextlib.ExitStack() as turn:
            turn.callback(self._end_turn)
            try:
                return (await self._resume(workspace, turn.close)).workspace
            except KubeApiError as error:
                raise problem_of(error) from error

    async def _take_turn(self, owner: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end_turn()
            raise

    def _end_turn(self) -> None:
        """Give the turn to the next owner who waits, who then waits behind all others."""
        while self._queues:
            owner, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[owner] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
