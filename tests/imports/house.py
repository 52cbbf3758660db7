"""A config with most of what people write, at real servers of the tests."""

from __future__ import annotations

from collections.abc import Mapping

from tests.upstreams import Upstream

UPSTREAMS = ("one", "two", "three", "ollama", "embedder", "media", "azure", "claude", "elsewhere")
# What asks for each name: the route, by the name's mode.
CHAT = """
local flow anchored balanced ordered mixed chained nested gpt-4 hidden-alias taken azure-gpt claude lab old-ollama
ollama-chat wild/anything leaked fallback-target by-alias-chain custom-price
""".split()
EMBEDDING = ["vectors", "ollama-vectors"]
OTHER = {"speech": "speech", "ears": "transcription", "pictures": "image", "ranks": "rerank", "codex": "responses"}
# Names for which LiteLLM chooses among several: any of them is right.
SEVERAL = {"balanced", "mixed"}


def house(up: Mapping[str, Upstream], dead: str) -> str:
    """Return the text of the config; `dead` is an address where nobody listens."""
    return f"""\
# Grown for a year.
x-defaults: &defaults
  api_key: none
  timeout: 30
model_list:
  - model_name: local
    litellm_params:
      model: openai/local-up
      api_base: {up["one"].openai_base}
      api_key: os.environ/LOCAL_KEY
      temperature: 0.3
      max_tokens: 77
      extra_headers: {{X-Room: "attic"}}
  - {{model_name: flow, litellm_params: {{model: openai/flow-up, api_base: "{up["two"].openai_base}", api_key: none, extra_body: {{top_k: 40}}}}}}
  - model_name: anchored
    litellm_params: {{<<: *defaults, model: openai/anchored-up, api_base: "{up["one"].openai_base}"}}
  # two boxes, one model
  - model_name: balanced
    litellm_params: {{<<: *defaults, model: openai/balanced-up, api_base: "{up["one"].openai_base}"}}
  - model_name: balanced
    litellm_params: {{<<: *defaults, model: openai/balanced-up, api_base: "{up["two"].openai_base}"}}
  - model_name: ordered
    litellm_params: {{<<: *defaults, model: openai/ordered-second, api_base: "{up["one"].openai_base}", order: 2}}
  - model_name: ordered
    litellm_params: {{<<: *defaults, model: openai/ordered-first, api_base: "{up["two"].openai_base}", order: 1}}
  - model_name: mixed
    litellm_params: {{<<: *defaults, model: openai/mixed-a, api_base: "{up["one"].openai_base}", weight: 3}}
  - model_name: mixed
    litellm_params: {{<<: *defaults, model: openai/mixed-b, api_base: "{up["three"].openai_base}", weight: 1}}
  - model_name: chained
    litellm_params: {{<<: *defaults, model: openai/chained-up, api_base: "{dead}"}}
  - model_name: nested
    litellm_params: {{<<: *defaults, model: openai/nested-up, api_base: "{dead}"}}
  - model_name: fallback-target
    litellm_params: {{<<: *defaults, model: openai/target-up, api_base: "{up["three"].openai_base}"}}
  - model_name: taken
    litellm_params: {{<<: *defaults, model: openai/nobody-reaches-this, api_base: "{up["elsewhere"].openai_base}"}}
  - model_name: azure-gpt
    litellm_params:
      model: azure/my-deployment
      api_base: {up["azure"].url}
      api_key: os.environ/AZURE_KEY
      api_version: "2024-08-01-preview"
    model_info: {{base_model: azure/gpt-4o}}
  - model_name: claude
    litellm_params: {{model: anthropic/claude-sonnet-4-20250514, api_base: "{up["claude"].url}", api_key: os.environ/CLAUDE_KEY}}
  - model_name: lab
    litellm_params: {{model: openai/lab-up, litellm_credential_name: lab}}
  - model_name: old-ollama
    litellm_params: {{model: ollama/llama3, api_base: "{up["ollama"].url}", num_ctx: 2048, keep_alive: 10m}}
  - model_name: ollama-chat
    litellm_params: {{model: ollama_chat/gemma3, api_base: "{up["ollama"].url}", temperature: 0.1}}
  - model_name: ollama-vectors
    litellm_params: {{model: ollama/nomic-embed-text, api_base: "{up["ollama"].url}"}}
    model_info: {{mode: embedding, output_vector_size: 4}}
  - model_name: vectors
    litellm_params: {{<<: *defaults, model: openai/vectors-up, api_base: "{up["embedder"].openai_base}", dimensions: 4}}
    model_info: {{mode: embedding}}
  - model_name: speech
    litellm_params: {{<<: *defaults, model: openai/tts-up, api_base: "{up["media"].openai_base}"}}
    model_info: {{mode: audio_speech}}
  - model_name: ears
    litellm_params: {{<<: *defaults, model: openai/whisper-up, api_base: "{up["media"].openai_base}"}}
    model_info: {{mode: audio_transcription}}
  - model_name: pictures
    litellm_params: {{<<: *defaults, model: openai/flux-up, api_base: "{up["media"].openai_base}"}}
    model_info: {{mode: image_generation}}
  - model_name: ranks
    litellm_params: {{<<: *defaults, model: infinity/bge-reranker, api_base: "{up["media"].url}"}}
  - model_name: codex
    litellm_params: {{<<: *defaults, model: openai/codex-up, api_base: "{up["three"].openai_base}"}}
    model_info: {{mode: responses}}
  - model_name: custom-price
    litellm_params: {{<<: *defaults, model: openai/priced-up, api_base: "{up["three"].openai_base}"}}
    model_info: {{input_cost_per_token: 0.000001, output_cost_per_token: 0.000002}}
  - model_name: "wild/*"
    litellm_params: {{<<: *defaults, model: "openai/*", api_base: "{up["elsewhere"].openai_base}"}}
  - model_name: leaked
    litellm_params: {{model: openai/leaked-up, api_base: "{up["elsewhere"].openai_base}", api_key: sk-live-0123456789abcdef}}
credential_list:
  - credential_name: lab
    credential_values: {{api_key: os.environ/LAB_KEY, api_base: "{up["one"].openai_base}"}}
    credential_info: {{custom_llm_provider: openai}}
router_settings:
  num_retries: 0
  disable_cooldowns: true
  model_group_alias:
    gpt-4: local
    hidden-alias: {{model: flow, hidden: true}}
    taken: local                # once a model of its own
    by-alias-chain: chained
  fallbacks:
    - chained: [fallback-target]
    - nested: [chained]
    - by-alias-chain: [flow]
litellm_settings:
  drop_params: true
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
  custom_auth: test_keys.auth
"""
