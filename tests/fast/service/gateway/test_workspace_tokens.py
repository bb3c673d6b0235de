"""Access tokens of workspaces: of the service's secret, the workspace, its generation and the purpose."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentenv.core.gateway.access_tokens import epoch_of, is_access_token
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.gateway.sealing import SecretsCache, WorkspaceTokens, new_secrets
from agentenv.service.http.problems import Problem

WORKSPACE = Workspace("w-1", "u-1", "box", "session", "running")


def test_a_token_is_the_one_that_the_gateway_accepts() -> None:
    secrets = new_secrets(datetime.now(UTC))
    tokens = WorkspaceTokens(lambda: secrets)
    api, traffic = (tokens.token(WORKSPACE, "u-1", purpose) for purpose in ("api", "traffic"))
    assert is_access_token(api, secrets.access, epoch_of(WORKSPACE))
    assert is_access_token(traffic, secrets.access, epoch_of(WORKSPACE), "traffic")
    shared = tokens.token(WORKSPACE, "u-2", "api")
    assert is_access_token(shared, secrets.access, epoch_of(WORKSPACE, shared=True))
    assert len({api, traffic, shared}) == 3


def test_without_a_secret_there_is_no_token() -> None:
    async def nothing() -> None:
        return None

    with pytest.raises(Problem, match="no secrets yet"):
        WorkspaceTokens(SecretsCache(nothing).current).token(WORKSPACE, "u-1", "api")
