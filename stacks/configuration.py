"""The stack's configuration, all of it: a key that nobody asks for may be a key that somebody mistyped."""

import json
import os

import pulumi

from agentenv.config import Mistakes, Settings, read


def stack_settings() -> Settings:
    """The settings of the stack that is being brought up; all their mistakes end the program in one message.

    `pulumi.Config` answers for keys that are asked for by name, and so cannot tell of the others. The engine hands a
    program everything there is, and the names of what is secret, in these two variables.
    """
    config: dict[str, object] = json.loads(os.environ.get("PULUMI_CONFIG") or "{}")
    secret: list[str] = json.loads(os.environ.get("PULUMI_CONFIG_SECRET_KEYS") or "[]")
    return read(config, pulumi.get_stack(), secret)


def refusal(mistakes: Mistakes) -> pulumi.RunError:
    """The mistakes as the engine prints them: together, and without a traceback."""
    count = len(mistakes.mistakes)
    title = "one mistake" if count == 1 else f"{count} mistakes"
    return pulumi.RunError(f"the stack's configuration has {title}:\n{mistakes}")
