"""A request without a valid token gets 401 before anything else of it is validated, by every route with a caller."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agentenv.service.http.app import application
from tests.fast.service.http.application import ApiClient, run_with_api


def operations() -> list[tuple[str, str]]:
    """Return method and path of the routes that need a caller."""
    paths: dict[str, dict[str, Any]] = application().openapi()["paths"]
    return sorted(
        (method.upper(), path)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if operation.get("security")
    )


def test_the_routes_with_a_caller_are_known() -> None:
    assert len(operations()) >= 20
    assert {path.split("/")[2] for _, path in operations()} >= {"workspaces", "swarms", "sessions", "usage", "secrets"}


@pytest.mark.parametrize("authorization", [None, "Bearer opaque", "Basic dTpw"])
def test_an_invalid_request_without_a_token_is_unauthenticated(authorization: str | None) -> None:
    async def act(api: ApiClient) -> None:
        headers = {"content-type": "application/json", **({"authorization": authorization} if authorization else {})}
        for method, path in operations():
            invalid = re.sub(r"\{[a-z]+\}", "NO_SUCH-ID!", path)
            for body in (b"{", b'{"unknown": 1}', b""):
                response = await api.client.request(method, f"{invalid}?limit=x&wait=y", content=body, headers=headers)
                assert response.status_code == 401, (method, path, response.text)
                assert response.headers["www-authenticate"] == "Bearer"

    run_with_api(act)


def test_an_invalid_request_with_a_token_is_malformed() -> None:
    async def act(api: ApiClient) -> None:
        assert (await api.request("ann", "GET", "/workspaces?limit=x")).status_code == 422
        assert (await api.request("ann", "POST", "/workspaces", {"unknown": 1})).status_code == 422

    run_with_api(act)
