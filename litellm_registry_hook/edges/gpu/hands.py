"""Loads and unloads models of Ollama servers, with the registry's keep_alive and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from litellm_registry_hook.core.gpu.names import ollama_name, short_name
from litellm_registry_hook.core.gpu.pinning import load_keep_alive_of, options_of
from litellm_registry_hook.core.gpu.verdict import Want
from litellm_registry_hook.core.registry import Model
from litellm_registry_hook.edges.gpu.places import headers_of
from litellm_registry_hook.edges.gpu.web import Answer, Failure, Web, cut

CONNECT_S: Final = 2.0
_OK: Final = 200
_BAD_REQUEST: Final = 400
_NO_GENERATE: Final = "does not support generate"


class OllamaHands:
    """Implements core.gpu.ports.Hands. Thread-safe; each call has a connection of its own.

    A load ends when its client hangs up, so `timeout_s` has to be as long as the slowest load; nothing is asked twice.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        """Keep the environment that `os.environ/NAME` is resolved with."""
        self._env = env

    def load(self, want: Want, timeout_s: float) -> str | None:
        """Load a model and wait until it is loaded; None, or a sentence that says why it is not."""
        model = want.model
        if model is None:
            return f"{short_name(want.slot.name)} is not in the registry: its size is not known and it is never loaded"
        body: dict[str, Any] = {"model": ollama_name(model), "keep_alive": load_keep_alive_of(model)}
        if options := options_of(model):
            body["options"] = options
        if model.effective_mode == "embedding":
            return _sentence(self._post(want, "/api/embed", {**body, "input": []}, timeout_s))
        answer = self._post(want, "/api/generate", {**body, "stream": False}, timeout_s)
        if isinstance(answer, Answer) and answer.status == _BAD_REQUEST and _NO_GENERATE in answer.said():
            # The registry calls it a chat model, the server knows that it embeds.
            answer = self._post(want, "/api/embed", {**body, "input": []}, timeout_s)
        return _sentence(answer)

    def unload(self, want: Want, timeout_s: float) -> str | None:
        """Ask for a model's unload, which a busy one does after its requests; None when it was accepted.

        Embedding models are unloaded by the same call: Ollama looks at keep_alive before it looks at what they can do.
        """
        name = short_name(want.slot.name) if want.model is None else ollama_name(want.model)
        return _sentence(
            self._post(want, "/api/generate", {"model": name, "keep_alive": 0, "stream": False}, timeout_s)
        )

    def _post(self, want: Want, path: str, body: dict[str, Any], timeout_s: float) -> Answer | Failure:
        web = Web(want.slot.api_base, _headers(want.model, self._env))
        try:
            return web.ask(path, body=body, read_s=timeout_s, connect_s=CONNECT_S, again=False)
        finally:
            web.close()


def _headers(model: Model | None, env: Mapping[str, str]) -> dict[str, str]:
    return {} if model is None else headers_of(model, env)


def _sentence(answer: Answer | Failure) -> str | None:
    if isinstance(answer, Failure):
        return cut(f"ollama did not answer: {answer.reason}")
    if answer.status != _OK:
        return cut(f"ollama answered {answer.status}: {answer.said()}")
    try:
        said = answer.json()
    except ValueError:
        return cut(f"ollama answered something else than JSON: {answer.said()}")
    if not isinstance(said, dict) or said.get("error"):
        return cut(f"ollama answered 200 with an error: {answer.said()}")
    return None
