"""Which LiteLLM a proxy starts on. noxfile.py runs the first of these on every release that it knows, supported or not."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from litellm_registry_hook.core.compatibility import is_known, known_releases
from tests.host.proxy import OPTED, Proxy, write_folder
from tests.host.shapes import config_for, registry_for
from tests.upstreams import Upstream

LITELLM = version("litellm")
only_known = pytest.mark.skipif(not is_known(LITELLM), reason="needs a release that is supported")


def proxy_with(ups: dict[str, Upstream], folder: Path, before: str = "") -> Proxy:
    """A proxy that runs some Python first, as if its LiteLLM were another one."""
    registry = registry_for(ups)
    write_folder(folder, registry, config_for(registry))
    early = folder / "early"
    early.mkdir()
    (early / "sitecustomize.py").write_text(before)
    return Proxy(folder, env={"PYTHONPATH": str(early)})


def said(proxy: Proxy) -> list[str]:
    """What the registry has warned of LiteLLM's release in the log."""
    warned = [line.partition("WARNING: ")[2] for line in proxy.log.splitlines() if "registry:WARNING" in line]
    return [line for line in warned if re.search(r"LiteLLM \d", line)]


def no_start(proxy: Proxy) -> str:
    """Start a proxy that must not start; return its log on one line."""
    proxy.start()
    try:
        assert proxy.ended() != 0
    finally:
        proxy.stop()
    assert "Application startup complete" not in proxy.log
    return " ".join(proxy.log.split())


def test_this_release_of_litellm_serves_or_says_why_not(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """On a known release a tier is served and a metered model refused; on another one the proxy may end, with a reason."""
    proxy = proxy_with(ups, tmp_path)
    if not is_known(LITELLM):
        log = no_start(proxy)
        assert f"the registry cannot be enforced on LiteLLM {LITELLM}, so the proxy does not start: " in log
        assert f"Install a release that is known to work ({known_releases()}); see docs/compatibility.md" in log
        return
    with proxy:
        served, stream = proxy.chat("large"), proxy.chat("large", stream=True)
        refused, opted = proxy.chat("paid-fallback"), proxy.chat("paid-fallback", key=OPTED)
        warned = said(proxy)

    assert [(one.status_code, one.headers.get("x-registry-model")) for one in (served, stream)] == [(200, "kimi")] * 2
    assert "data: [DONE]" in stream.text
    assert [(one.status_code, one.json()["error"]["code"]) for one in (refused, opted)] == [
        (403, "metered_consent_missing")
    ] * 2
    assert warned == []


@only_known
def test_an_unknown_release_that_has_everything_serves_and_says_so_once(
    ups: dict[str, Upstream], tmp_path: Path
) -> None:
    """A LiteLLM that nobody has checked, whole inside, is served with one warning: which it is, and which are known."""
    with proxy_with(ups, tmp_path, 'import litellm._version\n\nlitellm._version.version = "1.199.0"\n') as proxy:
        served, refused = proxy.chat("large"), proxy.chat("paid-fallback")
        warned = said(proxy)

    assert (served.status_code, served.headers["x-registry-model"], refused.status_code) == (200, "kimi", 403)
    assert warned == [
        "nobody has checked this plugin with LiteLLM 1.199.0; what its gates stand on is there, so it serves. Known to work: "
        f"{known_releases()}. To check it yourself: docs/compatibility.md"
    ]


REMOVED = {
    "the last check": (
        "import litellm.utils\n\ndel litellm.utils.async_pre_call_deployment_hook\n",
        "litellm.utils.async_pre_call_deployment_hook is missing (calls would leave for a provider without the last check)",
    ),
    "an import": (
        "import litellm.router_utils.fallback_event_handlers as home\n\nhome.kept = home.per_request_fallback_controls\n"
        "import litellm.router\n\ndel home.per_request_fallback_controls\n",
        "cannot import name 'per_request_fallback_controls' from 'litellm.router_utils.fallback_event_handlers'",
    ),
    "a call": (
        "from litellm.router import Router\n\n\nasync def aembedding(self, model, input, **kwargs):\n    return None\n\n\n"
        "Router.aembedding = aembedding\n",
        "the call of async_function_with_fallbacks in Router.aembedding is missing (calls would go past the walk of a tier)",
    ),
}


@only_known
@pytest.mark.parametrize(("before", "sentence"), REMOVED.values(), ids=REMOVED)
def test_a_release_that_would_leave_a_gate_open_does_not_start(
    ups: dict[str, Upstream], tmp_path: Path, before: str, sentence: str
) -> None:
    """Where something that a gate stands on is gone, or is not called any more, the proxy ends and names it."""
    log = no_start(proxy_with(ups, tmp_path, before))

    assert f"the registry cannot be enforced on LiteLLM {LITELLM}, so the proxy does not start: " in log
    assert sentence in log


@only_known
def test_a_compromised_release_does_not_start(ups: dict[str, Upstream], tmp_path: Path) -> None:
    """A release that somebody else published ends the proxy, and its keys are to be changed."""
    log = no_start(proxy_with(ups, tmp_path, 'import litellm._version\n\nlitellm._version.version = "1.107.0"\n'))

    assert (
        "LiteLLM 1.107.0 was published by somebody else: it sends secrets away. The proxy does not start; install"
        in log
    )
    assert "change every key that it had" in log
