"""The application under `/e2b`: its routes and the form of its errors, beside the service's own API.

It is an application of its own because errors outside its routes have that form, too, and because its description is
that of E2B and not a part of ours.
"""

from __future__ import annotations

from fastapi import FastAPI

from agentenv.service.e2b import reports, routes, templates
from agentenv.service.e2b.errors import install_handlers

PATH = "/e2b"


def mount(parent: FastAPI) -> None:
    """Serve the sandbox API below a path of the service's application."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state = parent.state  # with the dependencies, once it is served
    install_handlers(app)
    # In this order: `/sandboxes/metrics` is no sandbox, and the last one has every other path.
    for each in (reports, routes, templates):
        app.include_router(each.router)
    parent.mount(PATH, app)
