"""What an environment does not offer is not found, and the description of the API says so."""

from __future__ import annotations

from typing import Any

from agentenv.service.http.app import application
from tests.fast.service.http.application import ApiClient, run_with_api

ROUTES: dict[str, tuple[str, str, Any]] = {
    "signIn": ("GET", "/sign-in", None),
    "finishSignIn": ("GET", "/sign-in/callback", None),
    "enterWorkspace": ("GET", f"/sign-in/enter?host=a&browser={'0' * 32}", None),
    "signOut": ("POST", "/sign-out", None),
    "createKey": ("POST", "/keys", {"name": "ci", "scopes": ["read"]}),
    "listKeys": ("GET", "/keys", None),
    "revokeKey": ("DELETE", f"/keys/{'0' * 12}", None),
}
OF_A_WORKSPACE = {"listLinks": "/links", "listEntries": "/entries"}


def test_routes_without_their_table_or_sign_in_answer_a_documented_404() -> None:
    paths = application().openapi()["paths"].values()
    described = {operation["operationId"]: operation for path in paths for operation in path.values()}

    async def act(api: ApiClient) -> None:
        created = await api.request("alice", "POST", "/workspaces", {"class": "standard"}, claims={"team": "vetted"})
        own = f"/workspaces/{created.json()['id']}"
        api.dependencies.keys = api.dependencies.access_records = None
        routes = ROUTES | {operation: ("GET", f"{own}{path}", None) for operation, path in OF_A_WORKSPACE.items()}
        for operation, (method, path, body) in routes.items():
            response = await api.request("alice", method, path, body)
            assert response.status_code == 404, (operation, response.text)
            assert response.json()["detail"].startswith("this environment has no "), operation
            assert "404" in described[operation]["responses"], operation

    run_with_api(act)
