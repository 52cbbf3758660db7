"""Routes: what the gates see, what is harmless, and what nobody governs."""

from __future__ import annotations

import pytest

from litellm_registry_hook.core.routes import Route, classify

MODEL = [
    "/v1/chat/completions", "/chat/completions", "/engines/a/b/chat/completions", "/openai/deployments/m/embeddings",
    "/v1/completions", "/v1/embeddings", "/v1/moderations", "/v1/ocr", "/v1/images/generations", "/v1/images/edits",
    "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/responses", "/openai/v1/responses", "/v1/responses/compact",
    "/v1/rerank", "/v2/rerank", "/rerank", "/v1/realtime/client_secrets", "/v1/realtime/calls", "/v1/rag/query",
    "/cursor/chat/completions", "/v1/videos", "/v1beta/interactions", "/mcp", "/mcp/github",
    "/mcp-rest/tools/call", "/toolset/x/mcp",
]  # fmt: skip


@pytest.mark.parametrize("path", MODEL)
def test_a_route_that_carries_a_model_is_governed(path):
    """The gates see its model; errors have OpenAI's shape."""
    assert classify("POST", path) == Route("model", "openai")


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/realtime", "/openai/v1/realtime", "/v1/live/sessions"])
def test_a_websocket_that_carries_a_model_is_governed(path):
    """A WebSocket's model reaches the same hooks."""
    assert classify("WEBSOCKET", path) == Route("model", "openai")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/claude_code_gateway/v1/messages"])
def test_messages_have_anthropics_shape(path):
    """Errors of the Messages API are Anthropic's."""
    assert classify("POST", path) == Route("model", "anthropic")


@pytest.mark.parametrize("verb", ["generateContent", "streamGenerateContent", "countTokens"])
@pytest.mark.parametrize("root", ["", "/v1beta"])
def test_generate_content_has_geminis_shape(root, verb):
    """Errors of the Gemini API are Google's, slashes in the model's name or not."""
    assert classify("POST", f"{root}/models/a/b:{verb}") == Route("model", "gemini")


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/openai/v1/chat/completions", "openai"),
        ("/openai_passthrough/v1/embeddings", "openai"),
        ("/cohere/v2/chat", "openai"),
        ("/mistral/v1/chat/completions", "openai"),
        ("/openrouter/api/v1/chat/completions", "openai"),
        ("/anthropic/v1/messages", "anthropic"),
        ("/gemini/v1beta/models/x:generateContent", "gemini"),
    ],
)
def test_a_pass_through_that_the_pre_call_hook_sees(path, shape):
    """LiteLLM's own pass-throughs count as unlisted models, which the hook refuses or lets through."""
    assert classify("POST", path) == Route("passthrough", shape)


HARMLESS = [
    ("GET", "/"), ("GET", "/health/readiness"), ("GET", "/v1/models"), ("GET", "/models/kimi"), ("GET", "/metrics/"),
    ("POST", "/key/generate"), ("GET", "/key/info"), ("POST", "/team/new"), ("GET", "/ui/index.html"),
    ("POST", "/model/new"), ("GET", "/registry/status"), ("GET", "/v1/responses/resp_1"), ("GET", "/guardrails/list"),
    ("DELETE", "/v1/responses/resp_1"), ("POST", "/v1/responses/resp_1/cancel"), ("POST", "/api/event_logging/batch"),
    ("POST", "/utils/token_counter"), ("POST", "/prompts"), ("GET", "/v1/videos/v/content"), ("PUT", "/guardrails/x"),
    ("POST", "/v1/mcp/server"), ("GET", "/.well-known/oauth-protected-resource/mcp"), ("OPTIONS", "/v1/threads"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), HARMLESS)
def test_no_call_to_a_model_hangs_on_a_harmless_route(method, path):
    """Reading, record keeping and CORS preflights are let through."""
    assert classify(method, path) == Route("harmless", "openai")


CLOSED = [
    ("POST", "/v1/assistants"), ("POST", "/v1/threads/t/runs"), ("POST", "/openai/v1/threads"),
    ("POST", "/openai/v1/threads/t/runs"), ("POST", "/openai/assistants"), ("POST", "/openai/v1/x/../threads"),
    ("POST", "/openai_passthrough/v1/threads/runs"), ("POST", "/openai/v1/%74hreads"), ("POST", "/anthropic/v1/%6d"),
    ("DELETE", "/v1/batches/b"), ("POST", "/v1/files/f"), ("POST", "/team/v1/batches"), ("POST", "/ui/v1/files"),
    ("POST", "/openai/v1/batches"), ("GET", "/openai/v1/files/f/content"), ("POST", "/openai/batches"), ("GET", "/v1/v1/files"),
    ("POST", "/v1/fine_tuning/jobs"),
    ("POST", "/vertex_ai/v1/x"), ("POST", "/bedrock/model/m/invoke"), ("POST", "/azure/openai/x"), ("POST", "/vllm/x"),
    ("POST", "/a2a/agent"), ("POST", "/a2a/mcp"), ("POST", "/search/mcp"), ("POST", "/team/mcp"), ("GET", "/ui/token"),
    ("POST", "/v1/search"), ("POST", "/v1/rag/ingest"), ("POST", "/v1/vector_stores"), ("POST", "/prompts/test"),
    ("POST", "/guardrails/apply_guardrail"), ("POST", "/guardrails/test_custom_code"), ("POST", "/usage/ai/chat"),
    ("POST", "/policies/test-pipeline"), ("POST", "/policy/templates/suggest"), ("POST", "/auto_router/test_routing"),
    ("POST", "/search_tools/test_connection"), ("POST", "/plugin-proxy/p/x"), ("OPTIONS", "/plugin-proxy/p/x"),
    ("POST", "/a-route-of-next-year"), ("GET", "/a-route-of-next-year"), ("POST", ""), ("POST", "v1/chat/completions"),
    ("POST", "//v1/chat/completions"), ("POST", "/V1/chat/completions"), ("POST", "/v1/chat/completions/"),
    ("POST", "/v1/chat/completions\n"), ("POST", "/team/v1/batches\n"), ("WEBSOCKET", "/vertex_ai/live"),
    ("WEBSOCKET", "/deepgram/v1/listen"), ("GET", "/v1/chat/completions"), ("POST", "/v1/vector_stores/v/search"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_what_nobody_governs_is_closed(method, path):
    """A route whose model no hook sees, and any route on no list, is refused."""
    assert classify(method, path) == Route("ungoverned", "openai")
