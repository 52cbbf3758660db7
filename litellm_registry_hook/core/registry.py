"""The registry as frozen values: what `model-registry.yaml` says, typed.

The pydantic models are both the shape check and the values; `core/parse.py` turns a file's content into them and
`core/checks.py` holds the rules that span several keys. Memory is in MB (= MiB), time in seconds.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$"
NAME_RE = re.compile(NAME_PATTERN)
GO_DURATION = r"^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$|^-1$"
DEFAULT_CHAT_NUM_CTX = 4096
DEFAULT_NUM_BATCH = 512
OLLAMA_PROVIDERS = frozenset({"ollama", "ollama_chat"})

Lifecycle = Literal["always-on", "on-demand", "quota-gated", "cost-gated"]
Mode = Literal[
    "chat",
    "completion",
    "embedding",
    "rerank",
    "image_generation",
    "audio_transcription",
    "audio_speech",
    "moderation",
    "responses",
    "realtime",
    "ocr",
    "video_generation",
]

T = TypeVar("T")


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _one_or_many(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _as_tuple(value)


Many = Annotated[tuple[T, ...], BeforeValidator(_as_tuple)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Percent = Annotated[float, Field(ge=0, le=100)]
Megabytes = Annotated[int, Field(ge=0)]


class Value(BaseModel):
    """Base of all registry values: strict types, no unknown keys, no setters."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, validate_default=False)


class Endpoint(Value):
    """Where a model is served.

    Attributes:
        api_base: base URL given to LiteLLM.
        health_url: answers 200 while the server is up; for on-demand models.
        gpu: `auto`, `none`, an NVML UUID, or an index.

    """

    api_base: Annotated[str, Field(pattern=r"^(https?://|os\.environ/).+")]
    health_url: Annotated[str, Field(pattern=r"^https?://.+")] | None = None
    gpu: str | int = "auto"


class QuotaWindow(Value):
    """One window of a subscription: dotted paths into the probe's answer.

    Attributes:
        name: in answers and records. field: the percentage, or the fraction of 1.
        unit: whether that is what is used or what is left, and whether of 100 or of 1.
        resets_at_field: when the window starts anew.

    """

    name: Annotated[str, Field(min_length=1)]
    field: Annotated[str, Field(min_length=1)]
    unit: Literal["used", "left", "used_fraction", "left_fraction"] = "used"
    resets_at_field: Annotated[str, Field(min_length=1)] | None = None


class Quota(Value):
    """How used-up is read.

    Attributes:
        probe_command: prints JSON. probe_file: holds JSON. probe_url: answers JSON.
        probe_spend: the day, week or month (UTC) of which LiteLLM's own records say the spend. At most one of them.
        probe_bearer: `os.environ/NAME`, sent to probe_url as a bearer token.
        env: names of environment variables handed to the command.
        threshold_pct: percent used at which a window counts as used up.
        interval_s: seconds between readings. max_age_s: seconds after which a reading is too old.
        windows: required for quota-gated models.
        field, limit: budget of a cost-gated model; the limit of probe_spend is in US dollars, and it has no field.

    """

    probe_command: Annotated[str, Field(min_length=1)] | None = None
    probe_file: Annotated[str, Field(min_length=1)] | None = None
    probe_url: Annotated[str, Field(pattern=r"^https?://.+")] | None = None
    probe_bearer: Annotated[str, Field(pattern=r"^os\.environ/[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    probe_spend: Literal["day", "week", "month"] | None = None
    env: Many[str] = ()
    threshold_pct: Percent = 95
    interval_s: Annotated[float, Field(ge=1)] = 60
    max_age_s: Annotated[float, Field(gt=0)] = 900
    windows: Many[QuotaWindow] = ()
    field: Annotated[str, Field(min_length=1)] | None = None
    limit: Annotated[float, Field(gt=0)] | None = None


class GpuResidency(Value):
    """What a model takes on a GPU.

    Attributes:
        vram_mb: MB it really takes. predict_mb: MB that Ollama predicts for it, where measured.
        never_evict: must stay resident.
        num_ctx: tokens of context; 4096 for chat. options: further runner options, num_batch 512 if unset.
        keep_alive: Go duration or seconds; -1 = forever, the default of a never-evict model, else 5m.

    """

    vram_mb: Annotated[int, Field(gt=0)]
    predict_mb: Annotated[int, Field(gt=0)] | None = None
    never_evict: bool = False
    num_ctx: Annotated[int, Field(gt=0)] | None = None
    keep_alive: Annotated[str, Field(pattern=GO_DURATION)] | int | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class Model(Value):
    """One entry of `models`. `m.id` and `m["id"]` agree; `dict(m)` is the YAML entry as written."""

    id: Name
    tier: Name | None = None
    role: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_one_or_many), Field(min_length=1)]
    lifecycle: Lifecycle
    metered: bool
    opt_in_required: bool | None = None
    mode: Mode | None = None
    litellm: dict[str, Any]
    model_info: dict[str, Any] | None = None
    endpoints: Many[Endpoint] = ()
    dimensions: Annotated[int, Field(gt=0)] | None = None
    context: Annotated[int, Field(gt=0)] | None = None
    timeout_s: Annotated[float, Field(gt=0)] | None = None
    quota: Quota | None = None
    gpu_residency: GpuResidency | None = None
    description: str | None = None

    _entry: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    def keys(self) -> list[str]:
        """Return the keys the YAML entry has."""
        return list(self._entry)

    def __getitem__(self, key: str) -> Any:
        """Return a copy of the YAML value of a key; a key that the entry leaves out is its typed default.

        Raises:
            KeyError: the registry knows no such key.

        """
        if key in self._entry:
            return copy.deepcopy(self._entry[key])
        if key in type(self).model_fields:
            return getattr(self, key)
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # the keys, as a mapping has them
        return iter(self._entry)

    @cached_property
    def litellm_model(self) -> str:
        """The model string that LiteLLM is given, `provider/name`."""
        return str(self.litellm["model"])

    @cached_property
    def provider(self) -> str:
        """The LiteLLM provider: what stands before the first slash."""
        return str(self.litellm.get("custom_llm_provider") or self.litellm_model.partition("/")[0])

    @cached_property
    def effective_mode(self) -> str:
        """The LiteLLM mode: `mode`, else read from the role."""
        if self.mode is not None:
            return self.mode
        if "embedder" in self.role:
            return "embedding"
        return "rerank" if "reranker" in self.role else "chat"

    @cached_property
    def places(self) -> tuple[Endpoint, ...]:
        """The endpoints; one from `litellm.api_base` where none is listed; empty for a provider's own address."""
        if self.endpoints:
            return self.endpoints
        base = self.litellm.get("api_base")
        return (Endpoint(api_base=base),) if isinstance(base, str) and base else ()

    @cached_property
    def on_ollama(self) -> bool:
        """Whether the model is served by an Ollama server."""
        return self.provider in OLLAMA_PROVIDERS

    @cached_property
    def never_evict(self) -> bool:
        """Whether the entry itself says never-evict (checks keep it equal to never_evict_ids)."""
        return self.gpu_residency is not None and self.gpu_residency.never_evict


class OptIn(Value):
    """A map entry of routing.metered_opt_in.

    Attributes:
        key: alias of the virtual key. token: `sha256:<64 hex>`. At least one of them.
        models: ids the grant covers; None covers every metered model.
        expires: the grant ends at this moment; without an offset it is UTC.
        max_calls: calls a day (UTC) and model, over all workers.
        note: why.

    """

    key: Annotated[str, Field(min_length=1)] | None = None
    token: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    models: Annotated[tuple[str, ...] | None, BeforeValidator(_as_tuple)] = None
    expires: Annotated[str, Field(min_length=1)] | None = None
    max_calls: Annotated[int, Field(gt=0)] | None = None
    note: str | None = None

    @cached_property
    def expires_at(self) -> datetime | None:
        """The moment the grant ends, with its offset (checks make sure that it parses)."""
        return parse_moment(self.expires) if self.expires is not None else None


class OnUnknown(Value):
    """What a gate does where a fact is not known."""

    quota: Literal["use", "skip"] = "use"
    vram: Literal["refuse", "allow"] = "refuse"
    health: Literal["use", "skip"] = "use"


class Routing(Value):
    """The `routing` section: pools, aliases and who may reach what."""

    tiers: dict[Name, Many[str]]
    metered_opt_in: Many[str | OptIn] = ()
    aliases: dict[Name, str] = Field(default_factory=dict)
    unlisted_models: Literal["deny", "metered", "allow"] = "metered"
    mode: Literal["enforce", "observe"] = "enforce"
    master_key_metered: bool = False
    trust_key_alias: bool = False
    trust_custom_auth: bool = False
    max_wait_s: Annotated[float, Field(ge=0)] = 30
    on_unknown: OnUnknown = Field(default_factory=OnUnknown)

    @cached_property
    def grants_by_name(self) -> Mapping[str, tuple[str | OptIn, ...]]:
        """The entries of metered_opt_in by what they name: a token where pinned, else an alias."""
        found: dict[str, list[str | OptIn]] = {}
        for entry in self.metered_opt_in:
            name = entry if isinstance(entry, str) else entry.token or entry.key or ""
            found.setdefault(name, []).append(entry)
        return {name: tuple(entries) for name, entries in found.items()}


class CoResidencyGroup(Value):
    """Models that must fit on one GPU together."""

    name: Name
    ids: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]


class Baseline(Value):
    """What was measured: `ids` together took `measured_mb` of `total_mb` MB."""

    measured_mb: Annotated[int, Field(gt=0)]
    total_mb: Annotated[int, Field(gt=0)]
    ids: Many[str] = ()
    gpu: str | None = None


class GpuSize(Value):
    """The declared size of a GPU, where NVML is not available."""

    total_mb: Annotated[int, Field(gt=0)]


class GpuResidencyPolicy(Value):
    """The `gpu_residency_policy` section; all memory in MB."""

    never_evict_ids: Many[str] = ()
    co_residency_groups: Many[CoResidencyGroup] = ()
    baseline: Baseline | None = None
    reserve_mb: Megabytes = 0
    foreign_mb: Megabytes = 0
    max_loaded_models: Annotated[int, Field(gt=0)] | None = None
    partial_offload: Literal["allow", "warn", "refuse"] = "refuse"
    gpus: dict[str | int, GpuSize] = Field(default_factory=dict)


class Registry(Value):
    """A whole, valid registry."""

    version: Literal[1]
    models: Annotated[tuple[Model, ...], BeforeValidator(_as_tuple)]
    routing: Routing
    gpu_residency_policy: GpuResidencyPolicy = Field(default_factory=GpuResidencyPolicy)
    state: str | None = None

    @cached_property
    def by_id(self) -> Mapping[str, Model]:
        """Models by id."""
        return {model.id: model for model in self.models}

    @cached_property
    def tier_of(self) -> Mapping[str, str]:
        """The first tier that lists a model, by model id."""
        found: dict[str, str] = {}
        for tier, ids in self.routing.tiers.items():
            for model_id in ids:
                found.setdefault(model_id, tier)
        return found


def parse_moment(text: str) -> datetime:
    """Read an ISO date or time; a date means its first moment, no offset means UTC.

    Raises:
        ValueError: not an ISO date or time.

    """
    from datetime import timezone  # noqa: PLC0415

    moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
