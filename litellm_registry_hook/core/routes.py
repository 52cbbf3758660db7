"""Which routes of the proxy carry a model, which are harmless, and which nobody governs.

Default deny: a path that is on no list is refused, so a route that a LiteLLM upgrade brings stays closed until
somebody has looked at it. Patterns are matched against the decoded ASGI path below the proxy's root path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from litellm_registry_hook.core.refusal import Shape

Kind = Literal["model", "passthrough", "harmless", "ungoverned"]


@dataclass(frozen=True, slots=True)
class Route:
    """How one (method, path) is treated.

    Attributes:
        kind: `model`: the gates see it; `passthrough`: the pre-call hook sees it, the model is not in the registry's
            hands; `harmless`: no call to a model hangs on it; `ungoverned`: refused.
        shape: the error shape of its clients.

    """

    kind: Kind
    shape: Shape = "openai"


# Closed whatever else matches. The first segment of `/{provider}/v1/files`, `/{provider}/v1/batches`, `/{server}/mcp`
# and `/{server}/token` is anything, `team` or `ui` too. The lines of a batch that a pass-through makes are seen by no
# hook. Assistants run outside every hook; a pass-through decodes its path once more (llm_passthrough_endpoints.py:931,
# httpx.URL), so that a percent sign left in it could hide one. The plug-in proxy forwards any method, OPTIONS too
# (plugin_routes.py:245).
_CLOSED: Final = (
    r"/[^/]+/v1/(?:files|batches)(?:/.*)?",
    r"/[^/]+/mcp",
    r"/[^/]+/(?:authorize|token|register)",
    r"/(?:openai|openai_passthrough)/(?:.*/)?(?:assistants|threads|batches)(?:/.*)?",
    r"/(?:openai|openai_passthrough|anthropic|gemini|cohere|mistral|openrouter)/.*%.*",
    r"/plugin-proxy/.*",
)
# POST (and WebSocket) routes whose model reaches the pre-call hook, the router or the deployment hook.
_MODEL: Final = (
    r"(?:/v1)?/(?:chat/completions|completions|embeddings|moderations|ocr|images/generations|images/edits|videos)",
    r"(?:/v1)?/audio/(?:speech|transcriptions)",
    r"/(?:engines|openai/deployments)/.+/(?:chat/completions|completions|embeddings|images/generations|images/edits)",
    r"/cursor/chat/completions",
    r"(?:/openai/v1|/v1)?/responses(?:/compact|/input_tokens)?",
    r"(?:/v1|/v2)?/rerank",
    r"(?:/openai/v1|/v1)?/realtime(?:/(?:client_secrets|calls|transcription_sessions))?",
    r"(?:/openai/v1|/v1)?/live/sessions",
    r"(?:/v1)?/rag/query",
    r"(?:/v1beta)?/interactions",
)
# Files and batches: the deployment hook reads the lines of a batch file as it leaves, and decides each batch
# (adapter/batches.py).
_BATCH: Final = (r"(?:/v1)?/(?:files|batches)", r"(?:/v1)?/batches/.+/cancel")
_ANTHROPIC: Final = (r"(?:/claude_code_gateway)?/v1/messages(?:/count_tokens)?",)
_GEMINI: Final = (r"(?:/v1beta)?/models/.+:(?:generateContent|streamGenerateContent|countTokens)",)
# MCP: a tool call comes by the pre-call hook as call_mcp_tool; a model that a tool server asks for (sampling) comes by
# it as acompletion and then goes through the router (_experimental/mcp_server/sampling_handler.py:1107-1126).
# `/{server}/mcp` stays closed, for /a2a/mcp is an agent and /search/mcp a search; `/mcp/{server}` is the same
# (_experimental/mcp_server/server.py:1227).
_TOOLS: Final = (r"/mcp(?:/.*)?", r"/mcp-rest/tools/.+", r"/toolset/[^/]+/mcp")
# LiteLLM's own pass-through to a provider with the proxy's key; the pre-call hook fires with
# call_type pass_through_endpoint.
_PASSTHROUGH: Final = (
    r"/openai/.+",
    r"/openai_passthrough/.+",
    r"/(?:cohere|mistral|openrouter)/.+",
)
_PASSTHROUGH_ANTHROPIC: Final = (r"/anthropic/.+",)
_PASSTHROUGH_GEMINI: Final = (r"/gemini/.+",)
# Reading and administration: no generating call hangs on these. /health probes models, and the deployment hook
# decides each of those calls.
_HARMLESS_ANY: Final = (
    r"/",
    r"/(?:openapi\.json|redoc|docs|robots\.txt|routes|settings|metrics|test|login|get_logo_url|get_image|get_favicon)/?",
    r"/(?:_next|litellm-asset-prefix|ui|swagger|docs|\.well-known|litellm/\.well-known|onboarding|fallback/login)(?:/.*)?",
    r"/(?:v2/login|v3/login|session|sso|scim|public|model_hub|metrics)(?:/.*)?",
    r"/(?:key|team|user|organization|customer|end_user|project|tag|budget|invitation|credentials|access_group)(?:/.*)?",
    r"/v2/(?:key|team|user|organization|model)(?:/.*)?",
    r"/(?:global|spend|provider|gateway|agent/daily|cost_optimization|audit|callbacks|active|alerting|get|email)(?:/.*)?",
    r"/(?:config|update|upload|schedule|reload|router/settings|router/fields|cache|coordination_redis)(?:/.*)?",
    r"/(?:model|v1/model|model_group|health|debug|management|telemetry|add/allowed_ip|delete/allowed_ip)(?:/.*)?",
    r"/(?:memory-usage-in-mem-cache|memory-usage-in-mem-cache-items|otel-spans|adaptive_router/state)",
    r"/(?:registry)(?:/.*)?",
    r"/utils/(?:supported_openai_params|model_info|transform_request|token_counter)",
    r"/cost/(?:estimate|predict-cache)",
    # Records in the database. What tries a rule or a prompt out calls a model and stays closed: /prompts/test,
    # /policies/test-pipeline, /policy/templates/*, /guardrails/apply_guardrail, /search_tools/test_connection.
    r"/(?:jwt/key/mapping|claude-code|cloudzero|vantage|config_overrides)/.+",
    r"/v1/(?:access_group|unified_access_group|workflows|tool|memory|agents|mcp)(?:/.*)?",
    r"/(?:prompts|search_tools)(?:/(?!test(?:_connection)?/?$)[^/]+)?",
    r"/guardrails(?:/(?!apply_guardrail/?$|test_custom_code/?$)[^/]+)?",
    r"/guardrails/submissions/[^/]+/(?:approve|reject)",
    r"/policies(?:/(?!test-pipeline/?$).*)?",
    r"/policy/validate",
    r"/vector_store/(?:new|list|info|update|delete)",
    r"/fallback(?:/[^/]+)?",
    r"/utils/dotprompt_json_converter",
    r"/lazy/warm/[^/]+",
    # Telemetry of Claude Code, thrown away (anthropic_endpoints/endpoints.py:432), and the sign-in of MCP clients.
    r"/api/event_logging/batch",
    r"/v1/(?:logs|traces|traces/query)",
    r"/(?:authorize|token|register|callback|revoke|introspect)(?:/.*)?",
    r"/oauth/client-metadata\.json",
)
_HARMLESS_GET: Final = (
    r"(?:/v1)?/models(?:/.*)?",
    r"/cursor(?:/v1)?/models",
    r"(?:/v1)?/search/tools",
    r"(?:/openai/v1|/v1)?/responses/[^/]+(?:/input_items)?",
    r"(?:/v1)?/videos/[^/]+(?:/content)?",
    r"/v1/(?:skills|traces)(?:/.*)?",
    r"/(?:guardrails|prompts|policy|auto_router|api/plugins|model-insights)(?:/.*)?",
    r"/v2/guardrails/list",
)
_BATCH_READ: Final = (r"(?:/v1)?/(?:files|batches)(?:/.+)?",)
_BATCH_DELETE: Final = (r"(?:/v1)?/files/.+",)
_FOLLOW_UP: Final = (r"(?:/openai/v1|/v1)?/responses/[^/]+(?:/cancel)?",)


def _any(*groups: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for group in groups for pattern in group))


_RE_CLOSED, _RE_TOOLS = _any(_CLOSED), _any(_TOOLS)
_RE_MODEL, _RE_ANTHROPIC, _RE_GEMINI = _any(_MODEL, _BATCH), _any(_ANTHROPIC), _any(_GEMINI)
_RE_PASS, _RE_PASS_ANTHROPIC, _RE_PASS_GEMINI = (
    _any(_PASSTHROUGH),
    _any(_PASSTHROUGH_ANTHROPIC),
    _any(_PASSTHROUGH_GEMINI),
)
_RE_ANY, _RE_GET, _RE_FOLLOW_UP = _any(_HARMLESS_ANY), _any(_HARMLESS_GET, _BATCH_READ), _any(_FOLLOW_UP)
_RE_BATCH_DELETE = _any(_BATCH_DELETE)
_READING: Final = frozenset({"GET", "HEAD"})


@lru_cache(maxsize=1024)
def classify(method: str, path: str) -> Route:
    """Say how a request is treated.

    Args:
        method: HTTP method, or WEBSOCKET.
        path: decoded path below the root path, as the host's own routing sees it.

    """
    if _RE_CLOSED.fullmatch(path):
        return Route("ungoverned")
    if method == "OPTIONS":
        return Route("harmless")
    if method in {"POST", "WEBSOCKET"}:
        if _RE_MODEL.fullmatch(path):
            return Route("model")
        if _RE_ANTHROPIC.fullmatch(path):
            return Route("model", "anthropic")
        if _RE_GEMINI.fullmatch(path):
            return Route("model", "gemini")
    if method in _READING and _RE_GET.fullmatch(path):
        return Route("harmless")
    if method in {"POST", "DELETE"} and _RE_FOLLOW_UP.fullmatch(path):
        return Route("harmless")
    if method == "DELETE" and _RE_BATCH_DELETE.fullmatch(path):
        return Route("harmless")
    if _RE_PASS.fullmatch(path):
        return Route("passthrough")
    if _RE_PASS_ANTHROPIC.fullmatch(path):
        return Route("passthrough", "anthropic")
    if _RE_PASS_GEMINI.fullmatch(path):
        return Route("passthrough", "gemini")
    if _RE_TOOLS.fullmatch(path):
        return Route("model")
    if _RE_ANY.fullmatch(path):
        return Route("harmless")
    return Route("ungoverned")
