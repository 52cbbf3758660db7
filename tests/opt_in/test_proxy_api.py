"""The admin's HTTP to a proxy: what never leaves, and what is never read to its end."""

from __future__ import annotations

import pytest
from availability.avail_kit import http_server, says

from litellm_registry_hook.core.opt_in import OptInError
from litellm_registry_hook.edges import proxy_api


@pytest.mark.parametrize("key", ["sk-one\nX-Evil: 1", "sk-one\r", "sk-schlüssel"])
def test_a_key_that_no_header_takes_is_refused_without_showing_it(key: str) -> None:
    """It says what is wrong, and not the key, which http.client would quote."""
    with pytest.raises(OptInError) as caught:
        proxy_api.http("http://127.0.0.1:1", key)

    assert (caught.value.code, str(caught.value)) == (
        "bad_request",
        "the admin key holds a line break or another character that no header takes",
    )


def test_an_endless_answer_is_read_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What listens there need not be a proxy: its answer is given up at 64 MB."""
    monkeypatch.setattr(proxy_api, "LARGEST", 2**20)
    with http_server(says(" " * (2**20 + 1))) as url, pytest.raises(OptInError) as caught:
        proxy_api.http(url.removesuffix("/usage"), "sk-admin")("GET", "/usage", None)

    assert (
        str(caught.value)
        == f"the proxy at {url.removesuffix('/usage')} does not answer: its answer is larger than 1 MB"
    )


def test_an_endless_error_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an error the beginning will do."""
    monkeypatch.setattr(proxy_api, "LARGEST", 1000)
    with http_server(says("x" * 2000, 500)) as url:
        answer = proxy_api.http(url.removesuffix("/usage"), "sk-admin")("GET", "/usage", None)

    assert answer == (500, "x" * 1000)
