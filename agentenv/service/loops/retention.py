"""The pass over retained homes: date those of deleted workspaces, and destroy those whose retention is over."""

from __future__ import annotations

from collections.abc import Mapping

from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.retention import retention_decision
from agentenv.service.loops.context import LoopContext
from agentenv.service.loops.scheduler import PassResult, ShouldContinue, isolated

MOST = 50


async def apply_retention(context: LoopContext, should_continue: ShouldContinue) -> PassResult:
    """Apply retention to every retained home."""
    done = await _decide(context, should_continue, requested=False)
    completed = await context.backend.complete_destructions(should_continue)
    return PassResult(done.steps + completed, done.more, done.failures)


async def destroy_on_request(context: LoopContext, should_continue: ShouldContinue) -> PassResult:
    """Destroy data whose destruction was requested, as soon as nothing uses it."""
    return await _decide(context, should_continue, requested=True)


async def _decide(context: LoopContext, should_continue: ShouldContinue, *, requested: bool) -> PassResult:
    limits: Mapping[str, Limits] = {} if requested else await context.backend.limits()
    failures: list[str] = []
    steps = 0
    async for retained in context.backend.retained_homes(failures, requested=requested):
        if not should_continue():
            break
        if steps >= MOST:
            return PassResult(steps, True, tuple(failures))
        decision = retention_decision(retained.home, limits.get(retained.class_name, Limits()), context.clock.now())
        with isolated(failures, retained.home.volume):
            steps += await retained.apply(decision)
    return PassResult(steps, failures=tuple(dict.fromkeys(failures)))
