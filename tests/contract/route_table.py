"""Every route of the real LiteLLM app, the lazily included ones too, and how the registry classifies each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.routing import compile_path

from litellm_registry_hook.core.routes import classify

Found = tuple[str, str]


@lru_cache(maxsize=1)
def in_order() -> tuple[Found, ...]:
    """Return (method, path template) in the order in which Starlette tries them; a mount is `MOUNT`."""
    from litellm.proxy._lazy_features import register_all_features
    from litellm.proxy.proxy_server import app

    if not getattr(app.state, "lazy_loaded", None):
        register_all_features(app)
    return tuple(_walk(app.router.routes, lambda route: route.path))


def all_routes() -> list[Found]:
    """Return every (method, path template) once, sorted by path."""
    return sorted(set(in_order()), key=lambda one: (one[1], one[0]))


def _walk(routes: Any, path_for: Any) -> Iterator[Found]:
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from _walk(inner.routes, route.include_context.path_for)
            continue
        path, methods, kind = path_for(route), getattr(route, "methods", None), type(route).__name__
        if kind == "Mount":
            yield "MOUNT", path or "/"
        elif "WebSocket" in kind:
            yield "WEBSOCKET", path
        else:
            yield from ((method, path) for method in sorted(methods or ("ANY",)))


def compiled() -> list[tuple[str, str, re.Pattern[str]]]:
    """Return (method, template, pattern) in Starlette's order."""
    return [
        (method, template, compile_path(template + "/{path:path}" if method == "MOUNT" else template)[0])
        for method, template in in_order()
    ]


def wins(routes: list[tuple[str, str, re.Pattern[str]]], method: str, path: str) -> Found | None:
    """Return the first route that takes a request."""
    for have, template, pattern in routes:
        if have in {method, "MOUNT"} and pattern.match(path):
            return have, template
    return None


def samples(template: str, value: str = "x") -> Iterator[str]:
    """Concrete paths of a template; a parameter that reaches over slashes also as two segments."""
    yield re.sub(r"\{[^}]+\}", lambda _: value, template)
    if ":path}" in template:
        several = re.sub(r"\{[^}]+:path\}", lambda _: f"{value}/y", template)
        yield re.sub(r"\{[^}]+\}", lambda _: value, several)


def row(method: str, template: str) -> str:
    """Render one route as `METHOD path kind shape`; where its samples differ, joined by `|`."""
    asked = [f"{path}/x" if method == "MOUNT" else path for path in samples(template)]
    found = [classify("POST" if method == "MOUNT" else method, path) for path in asked]
    kinds = sorted({route.kind for route in found})
    shapes = sorted({route.shape for route in found})
    return f"{method} {template} {'|'.join(kinds)} {'|'.join(shapes)}"


def table() -> str:
    """The whole table, one route a line, sorted by path."""
    return "".join(f"{row(method, path)}\n" for method, path in all_routes())


if __name__ == "__main__":
    Path(__file__).with_name("routes.txt").write_text(table())
