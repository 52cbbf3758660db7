"""What is known about LiteLLM's providers: who bills by default, who runs at home.

The names are LiteLLM's (`litellm.types.utils.LlmProviders` of 1.108.7). A provider in neither table is judged
by its address.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from litellm_registry_hook.core.registry import Model

_BILLING = """
ai21 ai21_chat aiml amazon_nova anthropic anthropic_text assemblyai aws_polly aws_textract azure azure_ai
azure_speech azure_text baseten bedrock bedrock_mantle black_forest_labs bytez cerebras chutes clarifai cloudflare
codestral cohere cohere_chat cometapi cortecs dashscope databricks datarobot deepgram deepinfra deepseek edenai
elevenlabs empower fal_ai featherless_ai fireworks_ai friendliai galadriel gemini gigachat github gradient_ai groq
heroku huggingface hyperbolic inception jina_ai lambda_ai maritalk meta_llama minimax mistral moonshot morph
nano-gpt nebius nlp_cloud novita nscale nvidia_nim oci openai openrouter ovhcloud parasail perplexity poe predibase
qwencloud recraft reducto reka replicate runwayml sagemaker sagemaker_chat sagemaker_nova sambanova scaleway
snowflake soniox stability tencent text-completion-codestral text-completion-inception text-completion-openai
together_ai topaz v0 vercel_ai_gateway vertex_ai vertex_ai_beta volcengine voyage wandb watsonx watsonx_text xai
xiaomi_mimo zai
"""
_HOME = """
docker_model_runner hosted_vllm infinity lemonade llamafile lm_studio ollama ollama_chat oobabooga petals triton
vllm xinference
"""
BILLING = frozenset(_BILLING.split())
HOME = frozenset(_HOME.split())
# Addresses that are a provider's own, however they got into the file.
BILLING_HOSTS = (
    "anthropic.com",
    "api.cohere.com",
    "api.deepseek.com",
    "api.groq.com",
    "api.mistral.ai",
    "api.openai.com",
    "api.together.xyz",
    "api.x.ai",
    "cognitiveservices.azure.com",
    "fireworks.ai",
    "googleapis.com",
    "openai.azure.com",
    "openrouter.ai",
    "perplexity.ai",
)
_ADDRESS = ("http://", "https://", "os.environ/")
SUBSCRIPTION_HOSTS = ("api.kimi.com", "api.moonshot.ai", "api.moonshot.cn", "chatgpt.com")


def readable(model: Model) -> bool:
    """Say whether provider and address of a model can be read; if not, a rule of checks/serving.py has said so."""
    base = model.litellm.get("api_base")
    return isinstance(model.litellm.get("model"), str) and (base is None or legal_address(base))


def legal_address(base: object) -> bool:
    """Say whether a value can be an api_base."""
    return isinstance(base, str) and base.startswith(_ADDRESS) and base not in _ADDRESS


def _host(api_base: str) -> str:
    try:
        return (urlsplit(api_base).hostname or "").lower()
    except ValueError:
        return ""


def _under(host: str, known: tuple[str, ...]) -> bool:
    return any(host == name or host.endswith("." + name) for name in known)


def own_addresses(model: Model) -> list[str]:
    """Return the addresses of a model that are not a billing provider's own."""
    return [place.api_base for place in model.places if not _under(_host(place.api_base), BILLING_HOSTS)]


def bills_by_default(model: Model) -> bool:
    """Say whether calls of this model cost money unless something else was agreed on."""
    return model.provider in BILLING and not own_addresses(model)


def at_home(model: Model) -> bool:
    """Say whether the model can take memory of a GPU of this house."""
    if model.provider in HOME and not model.places:
        return True
    return any(not _under(_host(base), SUBSCRIPTION_HOSTS) for base in own_addresses(model))


def gpu_host(api_base: str) -> str:
    """Return the machine of an address, all loopback names alike."""
    host = _host(api_base)
    return "localhost" if host in {"localhost", "::1", "0.0.0.0"} or host.startswith("127.") else host  # noqa: S104
