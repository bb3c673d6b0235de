"""Generate the OpenAPI document of the workspace service from its routes."""

from __future__ import annotations

import json


def openapi_text() -> str:
    """Return the OpenAPI document. It needs no cluster."""
    from agentenv.service.http.app import application

    return json.dumps(application().openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
