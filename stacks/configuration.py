"""Reads the whole stack configuration, so that an unknown key is reported as a possible typo."""

import json
import os

import pulumi

from agentenv.config import Mistakes, Settings, read


def stack_settings() -> Settings:
    """Return the settings of the current stack; raise with all mistakes at once.

    `pulumi.Config` only returns keys by name, so it cannot report unknown keys. The engine passes the whole
    configuration, and the names of secret keys, in these two environment variables.
    """
    config: dict[str, object] = json.loads(os.environ.get("PULUMI_CONFIG") or "{}")
    secret: list[str] = json.loads(os.environ.get("PULUMI_CONFIG_SECRET_KEYS") or "[]")
    return read(config, pulumi.get_stack(), secret)


def refusal(mistakes: Mistakes) -> pulumi.RunError:
    """Return the mistakes as one error, which the engine prints without a traceback."""
    count = len(mistakes.mistakes)
    title = "one mistake" if count == 1 else f"{count} mistakes"
    return pulumi.RunError(f"the stack's configuration has {title}:\n{mistakes}")
