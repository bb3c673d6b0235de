"""The settings of the current stack, for programs. Components never read them: a program makes a plan of them.

`pulumi.Config` only returns keys by name, so it cannot report unknown keys. The engine passes the whole configuration,
and the names of secret keys, in two environment variables.
"""

import json
import os

import pulumi

from agentenv.config import Mistakes, Settings, read


def stack_settings() -> Settings:
    """Return the settings of the current stack, or end the program with all mistakes at once, without a traceback."""
    config: dict[str, object] = json.loads(os.environ.get("PULUMI_CONFIG") or "{}")
    secret: list[str] = json.loads(os.environ.get("PULUMI_CONFIG_SECRET_KEYS") or "[]")
    try:
        return read(config, pulumi.get_stack(), secret)
    except Mistakes as mistakes:
        count = len(mistakes.mistakes)
        title = "one mistake" if count == 1 else f"{count} mistakes"
        # From None: the engine prints the cause of an error, too.
        raise pulumi.RunError(f"the stack's configuration has {title}:\n{mistakes}") from None
