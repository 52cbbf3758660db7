"""LiteLLM's routes and our classification of them: a checked-in table, and proof that both see the same path."""

from __future__ import annotations

from pathlib import Path

import pytest
from route_table import all_routes, compiled, row, samples, table, wins
from starlette._utils import get_route_path
from starlette.routing import Match, Mount, Route, WebSocketRoute

from litellm_registry_hook.adapter.asgi import path_of
from litellm_registry_hook.adapter.host import litellm_version
from litellm_registry_hook.core.routes import classify

TABLE = Path(__file__).with_name("routes.txt")
REVIEWED = "1.108.7"
# What a client may put where a template has a parameter: the first segments of our own patterns, and odd characters.
VALUES = (
    "team", "ui", "health", "config", "model", "registry", "openai", "anthropic", "gemini", "v1", "chat", "threads",
    "x:generateContent", "..", "%2e%2e", "x%2Fy", "x;y", "X", " ", "\u00e4",
)  # fmt: skip


def test_the_table_of_routes_is_the_one_that_was_reviewed():
    """LiteLLM has exactly the routes that somebody has looked at, and each is classified as it was then.

    After an upgrade: look at what is new (does it call a model that no hook sees?), then write the file anew with
    `python tests/contract/route_table.py`. Another release than the one that was looked at may lack routes, and what it
    has besides must be closed.
    """
    found, reviewed = table().splitlines(), TABLE.read_text().splitlines()

    if litellm_version == REVIEWED:
        assert found == reviewed
    assert [line for line in found if line not in set(reviewed) and line.split()[-2] != "ungoverned"] == []


@pytest.mark.parametrize("value", VALUES)
def test_no_value_of_a_path_parameter_opens_a_closed_route(value):
    """Whatever a parameter holds, a path is classified as the route that Starlette picks for it, or is closed."""
    routes = compiled()
    reviewed = {}
    wrong = []
    for method, template in all_routes():
        if method == "MOUNT" or "{" not in template:
            continue
        path = next(samples(template, value))
        picked = wins(routes, method, path)
        if picked is None:
            continue
        allowed = reviewed.setdefault(picked, kinds_of(*picked))
        kind = classify(method, path).kind
        if kind not in allowed and kind != "ungoverned":
            wrong.append(f"{method} {path!r}: {kind}, but Starlette picks {picked[1]}: {sorted(allowed)}")
    assert wrong == []


def test_no_first_segment_opens_a_route_that_begins_with_a_parameter():
    """`/{provider}/v1/batches` with `team` for the provider is no team route: it is closed, or what Starlette picks."""
    routes = compiled()
    firsts = sorted({template.split("/")[1] for _, template in all_routes() if not template.startswith("/{")})
    wrong = []
    for method, template in all_routes():
        if not template.startswith("/{"):
            continue
        for first in firsts:
            path = next(samples("/" + first + template[template.index("}") + 1 :]))
            picked = wins(routes, method, path)
            kind = classify(method, path).kind
            if picked is not None and kind != "ungoverned" and kind not in kinds_of(*picked):
                wrong.append(f"{method} {path}: {kind}, but Starlette picks {picked}")
    assert wrong == []


def kinds_of(method: str, template: str) -> set[str]:
    return set(row(method, template).rsplit(" ", 2)[1].split("|"))


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("", "/v1/chat/completions"),
        ("/api", "/api/v1/chat/completions"),
        ("/api", "/apis/v1/threads"),
        ("/api", "/v1/threads"),
        ("/api/", "/api/v1/threads"),
        ("/", "/v1/threads"),
        ("/team", "/team/v1/threads"),
        ("", "//v1/threads"),
        ("", "/ui/../v1/threads"),
    ],
)
def test_our_path_is_the_one_that_starlette_matches(root, path):
    """path_of gives the same string as Starlette's own get_route_path, root path or not."""
    scope = {"type": "http", "path": path, "root_path": root, "raw_path": b"/elsewhere"}

    assert path_of(scope) == get_route_path(scope)


@pytest.mark.parametrize(
    "path",
    [
        "/ui/../v1/chat/completions",
        "//v1/chat/completions",
        "/V1/CHAT/COMPLETIONS",
        "/v1/chat/completions/",
        "/v1/chat/completions;x",
        "/v1%2Fchat/completions",
        "/./v1/chat/completions",
    ],
)
def test_starlette_does_not_normalise_a_path(path):
    """Dots, double slashes, case, semicolons and encoded slashes are matched as they stand: no such path is a chat."""
    route = Route("/v1/chat/completions", lambda request: None, methods=["POST"])

    assert route.matches({"type": "http", "method": "POST", "path": path})[0] is Match.NONE


def test_a_trailing_newline_is_a_chat_to_starlette_and_closed_to_us():
    """`$` in Starlette's patterns accepts a newline at the end; ours do not, so that such a path is refused."""
    path = "/v1/chat/completions\n"
    route = Route("/v1/chat/completions", lambda request: None, methods=["POST"])

    assert (route.matches({"type": "http", "method": "POST", "path": path})[0], classify("POST", path).kind) == (
        Match.FULL,
        "ungoverned",
    )


def test_a_mount_takes_every_path_below_it():
    """A mounted app gets what is below its prefix and nothing else, WebSockets too."""
    mount = Mount("/ui", app=lambda scope, receive, send: None)
    paths = ("/ui", "/ui/../v1/x", "/uix", "/ui/a")

    assert [mount.matches({"type": "http", "method": "GET", "path": path})[0] is Match.FULL for path in paths] == [
        False,
        True,
        False,
        True,
    ]


def test_what_an_operator_passes_through_is_known_to_litellm():
    """LiteLLM itself says whether a path is a configured pass-through (pass_through_endpoints.py:3333); none is here."""
    from litellm.proxy.pass_through_endpoints.pass_through_endpoints import InitPassThroughEndpointHelpers

    assert InitPassThroughEndpointHelpers.is_registered_pass_through_route("/v1/chat/completions") is False


def test_several_root_paths_are_resolved_inside_our_wrap():
    """With SERVER_ROOT_PATHS the root path is set by LiteLLM's outermost middleware, which our wrap is outside of."""
    from litellm.proxy.middleware.per_request_root_path_middleware import get_server_root_paths, normalize_root_paths

    assert (get_server_root_paths(), normalize_root_paths(["/a/", " /a/b", "x", "/"])) == ((), ("/a/b", "/a"))


def test_a_websocket_route_is_no_http_route():
    """A WebSocket and a POST on the same path are two routes."""
    route = WebSocketRoute("/v1/responses", lambda ws: None)

    assert route.matches({"type": "http", "method": "POST", "path": "/v1/responses"})[0] is Match.NONE
