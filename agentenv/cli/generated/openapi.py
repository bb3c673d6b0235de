"""The description of the workspace service's API as it is committed: what the routes say of themselves."""

from __future__ import annotations

import json


def openapi_text() -> str:
    """The OpenAPI document; no cluster is needed for it."""
    from agentenv.service.http.app import application

    return json.dumps(application().openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
