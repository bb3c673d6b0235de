"""Access tokens of workspaces: of the service's secret, the workspace, its generation and the purpose."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agentenv.core.gateway.access_tokens import is_access_token
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.gateway.sealing import SecretsCache, WorkspaceTokens, new_secrets
from agentenv.service.http.problems import Problem

WORKSPACE = Workspace("w-1", "u-1", "box", "session", "running")


def test_a_token_is_the_one_that_the_gateway_accepts() -> None:
    secrets = new_secrets(datetime.now(UTC))
    tokens = WorkspaceTokens(lambda: secrets)
    api, traffic = tokens.token(WORKSPACE, "api"), tokens.token(WORKSPACE, "traffic")
    assert is_access_token(api, secrets.access, "w-1", 0)
    assert is_access_token(traffic, secrets.access, "w-1", 0, "traffic")
    revoked = tokens.token(replace(WORKSPACE, token_generation=1), "api")
    assert len({api, traffic, revoked, tokens.token(replace(WORKSPACE, id="w-2"), "api")}) == 4


def test_without_a_secret_there_is_no_token() -> None:
    async def nothing() -> None:
        return None

    with pytest.raises(Problem, match="no secrets yet"):
        WorkspaceTokens(SecretsCache(nothing).current).token(WORKSPACE, "api")
