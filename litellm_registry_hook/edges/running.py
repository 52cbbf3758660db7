"""Ask a running proxy what it has loaded: /v1/model/info, /registry/status. Nothing is changed there.

The admin key goes to the named proxy only, see edges/proxy_api.py. Imports no litellm.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from http.client import HTTPException
from typing import Any, Final, TypeVar

from litellm_registry_hook.core.opt_in import OptInError
from litellm_registry_hook.core.running import InForce, Running
from litellm_registry_hook.edges.proxy_api import DENIED, MISSING, OK, Send, http

T = TypeVar("T")
LIMIT_S: Final = 20.0
"""Seconds for all questions together, whatever the proxy does."""
BEAT_S: Final = 5.0
"""Seconds in which each worker has told the state what it has in force, with room to spare."""
BAD_REQUEST: Final = 400
_NO_MODELS: Final = "not loaded in"
# What LiteLLM answers to a key that is not the master key where it has no database to look others up in.
_NO_DATABASE: Final = "no connected db"


def read_running(url: str, admin_key_env: str, limit_s: float = LIMIT_S) -> Running:
    """Ask a proxy.

    Args:
        url: its base URL. admin_key_env: the variable with its admin key.
        limit_s: seconds after which it counts as hanging.

    Raises:
        OptInError: no key, no proxy there, the key is refused or no admin's, or no answer in time; each with the fix.

    """
    key = os.environ.get(admin_key_env, "").strip()
    if not key:
        message = f"the proxy {url} needs an admin key: set {admin_key_env}, or name another with --admin-key-env"
        raise OptInError("bad_request", message)
    if not (key.isascii() and key.isprintable()):
        # What http.client says of such a header quotes it.
        message = f"the key in {admin_key_env} has characters that no header can carry: set it to the key alone"
        raise OptInError("bad_request", message)
    send = http(url, key, limit_s / 2)
    return _bounded(lambda: _read(url, admin_key_env, send), url, limit_s)


def _read(url: str, env: str, send: Send) -> Running:
    status, answer = send("GET", "/v1/model/info", None)
    if status in DENIED or (status == BAD_REQUEST and _NO_DATABASE in str(answer).lower()):
        raise _refused(url, env, status)
    rows = answer.get("data") if isinstance(answer, Mapping) else None
    if status >= 500 and _NO_MODELS in str(answer):  # noqa: PLR2004  LiteLLM's answer where it has no models at all
        rows = []
    elif status != OK or not isinstance(rows, list):
        message = f"what answers at {url} is no LiteLLM proxy ({status} to /v1/model/info): give its base URL"
        raise OptInError("proxy_failed", message)
    registries, missing = _registries(url, env, send)
    if not registries and send("GET", "/router/settings", None)[0] in DENIED:
        # Without the plugin this is how an admin is told from a key that is shown its own models only.
        raise _no_admin(url, env)
    return Running(url, _one_each(rows), registries, _version(send), missing)


def _registries(url: str, env: str, send: Send) -> tuple[tuple[InForce, ...], tuple[str, ...]]:
    """Return what the workers have in force, and the settings that are missing there."""
    status, answer = send("GET", "/registry/status", None)
    if status == MISSING:
        return (), ()
    if status in DENIED:
        raise _no_admin(url, env)
    if status != OK or not isinstance(answer, Mapping) or not isinstance(answer.get("registry"), Mapping):
        message = f"the plugin at {url} answers /registry/status with {status}: see the proxy's log, and try again"
        raise OptInError("proxy_failed", message)
    own = _in_force("", answer["registry"])
    told = answer.get("settings_missing")
    missing = tuple(map(str, told)) if isinstance(told, list) else ()
    state = answer.get("state")
    rows = state.get("in_force") if isinstance(state, Mapping) else None
    workers = [_in_force(str(row.get("worker")), row) for row in rows or () if isinstance(row, Mapping)]
    if _just_loaded(answer.get("at"), own.loaded_at):
        # A worker's row is as old as its last beat: right after an edit it says nothing.
        return (own,), missing
    # Other proxies may share the state, with files of their own.
    return (own, *(one for one in workers if one.path == own.path and one.digest != own.digest)), missing


def _just_loaded(at: Any, loaded_at: str) -> bool:
    try:
        age = datetime.fromisoformat(str(at)) - datetime.fromisoformat(loaded_at)
    except (TypeError, ValueError):
        return False
    return age < timedelta(seconds=BEAT_S)


def _in_force(worker: str, data: Mapping[str, Any]) -> InForce:
    broken = data.get("broken")
    return InForce(
        worker=worker,
        path=str(data.get("path") or ""),
        digest=str(data.get("digest") or ""),
        loaded_at=str(data.get("loaded_at") or ""),
        broken=tuple(map(str, broken)) if isinstance(broken, list) else (),
    )


def _one_each(rows: list[Any]) -> tuple[Mapping[str, Any], ...]:
    """Return one row per deployment: aliases and the models of a wildcard repeat the deployment that they stand for."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if isinstance(row, Mapping):
            info = row.get("model_info")
            found.setdefault(str(info.get("id")) if isinstance(info, Mapping) else f"no id {len(found)}", row)
    return tuple(found.values())


def _version(send: Send) -> str:
    status, answer = send("GET", "/health/readiness/details", None)
    return str(answer.get("litellm_version") or "") if status == OK and isinstance(answer, Mapping) else ""


def _refused(url: str, env: str, status: int) -> OptInError:
    message = f"the proxy {url} refuses the key in {env} ({status}): set it to the proxy's master key or an admin's key"
    return OptInError("proxy_failed", message)


def _no_admin(url: str, env: str) -> OptInError:
    message = f"the key in {env} is no proxy admin's at {url}, and sees only its own models: set the master key"
    return OptInError("proxy_failed", message)


def _bounded(work: Callable[[], T], url: str, limit_s: float) -> T:
    """Do the work in a thread, which a proxy that sends a byte now and then cannot hold on to."""
    done: list[T] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            done.append(work())
        except Exception as error:  # noqa: BLE001  raised again by the caller's thread
            failed.append(error)

    thread = threading.Thread(target=run, name="running-proxy", daemon=True)
    thread.start()
    thread.join(limit_s)
    if done:
        return done[0]
    if not failed:
        why = f"does not answer within {limit_s:.0f} s"
    elif isinstance(failed[0], HTTPException):
        # Its text would be whatever the server wrote.
        why = f"answers with what is no HTTP ({type(failed[0]).__name__})"
    elif isinstance(failed[0], RecursionError):
        why = "answers with JSON that is nested too deeply"
    else:
        raise failed[0]
    raise OptInError("proxy_failed", f"the proxy at {url} {why}: is the URL right, and the proxy up?")
