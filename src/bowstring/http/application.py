"""The pages: `/metrics`, `/livez`, `/readyz`, `/version`. Any other path gets an error in JSON.

Anyone who reaches the port can read everything here, and can change nothing. There is no login yet,
so the port is on loopback unless `http` says otherwise; no other origin may read it (no CORS). The
Host header is not checked: once a page can change something, it has to be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bowstring import errors
from bowstring.broker.broker import Readiness
from bowstring.http.exposition import exposed
from bowstring.http.metrics import View

Asked: TypeAlias = Callable[[], Awaitable[Readiness]]

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Pages:
    """The routes."""

    def __init__(self, *, version: str, alive: Asked, ready: Asked, view: Callable[[], Awaitable[View]]) -> None:
        self._version = version
        self._alive = alive
        self._ready = ready
        self._view = view

    async def metrics(self, request: Request) -> Response:
        try:
            view = await self._view()
        except errors.Unavailable as error:
            return _refusal(503, error)
        text, content_type = exposed(view, request.headers.get("accept", ""))
        return Response(text, headers={**HEADERS, "Content-Type": content_type})

    async def livez(self, _: Request) -> Response:
        return _health(await self._alive())

    async def readyz(self, _: Request) -> Response:
        return _health(await self._ready())

    async def version(self, _: Request) -> Response:
        return JSONResponse({"name": "bowstring", "version": self._version}, headers=HEADERS)


def application(pages: Pages) -> Starlette:
    """The application that uvicorn serves."""
    routes = [Route(f"/{page.__name__}", page) for page in (pages.metrics, pages.livez, pages.readyz, pages.version)]
    paths = ", ".join(route.path for route in routes)

    async def refused(request: Request, error: Exception) -> Response:
        code = error.status_code if isinstance(error, HTTPException) else 500
        if code == 404:
            refusal: errors.Error = errors.NotFound(f"there is no {request.url.path}.", hint=f"There are {paths}.")
        elif code == 405:
            refusal = errors.NotSupported(f"{request.method} is not allowed at {request.url.path}.", hint="Use GET.")
        else:
            refusal = errors.Rejected("this request cannot be answered.")
        return _refusal(code, refusal, getattr(error, "headers", None))

    handlers: dict[Any, Any] = {HTTPException: refused}
    return Starlette(routes=routes, exception_handlers=handlers)


def _health(found: Readiness) -> Response:
    content = {"status": found.state} | ({"reason": found.reason} if found.reason else {})
    return JSONResponse(content, status_code=200 if found.ready else 503, headers=HEADERS)


def _refusal(code: int, error: errors.Error, headers: Any = None) -> Response:
    content = {"kind": error.kind, "message": error.message, "hint": error.hint}
    return JSONResponse(content, status_code=code, headers={**HEADERS, **(headers or {})})
