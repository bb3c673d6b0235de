"""The routes of the console's pages: one page, and the files that it loads. They need no sign-in, and hold no data.

Nothing on the page runs but the files themselves: a response of a workspace, which is on the same host, is no script
of it.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from agentenv.core.gateway.hosts import parse_host
from agentenv.service.console import packages
from agentenv.service.console.assets import Asset, Assets, assets_of
from agentenv.service.http.dependencies import RequestDependencies
from agentenv.service.http.problems import not_found

router = APIRouter(include_in_schema=False)
FOREVER = "public, max-age=31536000, immutable"
_COMMON = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_PERMISSIONS = (
    "camera=(), microphone=(), geolocation=(), payment=(), usb=(), clipboard-read=(self), clipboard-write=(self)"
)


@router.get("/")
async def page(request: Request, dependencies: RequestDependencies) -> Response:
    """Return the page."""
    assets = _assets(request, dependencies)
    scheme = "http" if request.headers["host"].partition(":")[0].endswith(".localhost") else "https"
    own = f"{scheme}://{request.headers['host']}{assets.prefix}"
    headers = {"Content-Security-Policy": policy(own), "Permissions-Policy": _PERMISSIONS, "Cache-Control": "no-cache"}
    return _response(request, assets.index, headers)


@router.get("/assets/{digest}/{name}")
async def file(digest: str, name: str, request: Request, dependencies: RequestDependencies) -> Response:
    """Return a file, which browsers keep: its path changes with its content."""
    assets = _assets(request, dependencies)
    found = assets.files.get(name)
    if found is None or assets.prefix != f"/assets/{digest}/":
        raise not_found("file")
    return _response(request, found, {"Cache-Control": FOREVER, "Content-Security-Policy": "default-src 'none'"})


def policy(files: str) -> str:
    """Return the content security policy of the page; `files` is the address of the folder of its files."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {files}",
            f"style-src {files}",
            f"img-src {files}",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _assets(request: Request, dependencies: RequestDependencies) -> Assets:
    service = dependencies.catalog.settings.service
    domain = service.domain
    host = parse_host(request.headers.get("host", ""), domain, domain) if domain else None
    if host is None or host.kind != "console":
        raise not_found("page")
    return assets_of(packages.folder())


def _response(request: Request, asset: Asset, headers: dict[str, str]) -> Response:
    is_compressed = "gzip" in request.headers.get("accept-encoding", "")
    own = {**_COMMON, **headers, "Vary": "Accept-Encoding"}
    own |= {"Content-Encoding": "gzip"} if is_compressed else {}
    return Response(asset.compressed if is_compressed else asset.content, headers=own, media_type=asset.media_type)
