"""Every key of the file in words; docs/registry.md and the JSON Schema are made of it."""

# ruff: noqa: E501 - a table

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyDoc:
    """What a key means.

    Attributes:
        kind: type and unit.
        default: what holds where the key is absent; `required`, or a dash for nothing.
        effect: what it does.

    """

    kind: str
    default: str
    effect: str


_ROWS = """
version | 1 | required | Version of this format.
models | list | required | The models there are.
routing | mapping | required | Pools, aliases, and who may reach what.
gpu_residency_policy | mapping | - | What must stay on the GPUs, and how large they are.
state | URL | the user's state folder | Where state is kept: `sqlite:////path`, or for several hosts `redis://…`, `rediss://…` or `unix:///socket`. LITELLM_REGISTRY_STATE outranks it; a password belongs there.

models[].id | name | required | The model's name; also its model_name in litellm-config.yaml.
models[].tier | name | - | Its home tier, for people; routing.tiers decides. A tier that does not list it is a warning.
models[].role | word or list of words | required | main-reasoning, chat, embedder, routing-classifier, reranker, fallback, …; tells the mode.
models[].lifecycle | always-on, on-demand, quota-gated or cost-gated | required | What tells whether the model can be used now.
models[].metered | bool | required | true: each call costs money, and needs consent and an opted-in key.
models[].opt_in_required | true | - | Says aloud what holds for every metered model; an error elsewhere.
models[].mode | LiteLLM mode | from role | embedder: embedding, reranker: rerank, else chat.
models[].litellm | mapping | required | LiteLLM's parameters, passed on unchanged; `model` is provider/name.
models[].model_info | mapping | - | Written into LiteLLM's model_info as well: access_groups (keys may list the group's name), supports_vision, base_model, ….
models[].endpoints | list | one from litellm.api_base | The servers that hold a copy; litellm.api_base must be one of them.
models[].dimensions | int | required for embedders | Length of the vectors; only for embedding models.
models[].context | int, tokens | - | Context length; a request that overflows one model goes on to a larger one only.
models[].timeout_s | seconds | LiteLLM's | What one attempt may take before the next member of the pool is tried.
models[].quota | mapping | required for quota-gated | How used-up is read; only for quota-gated and cost-gated models.
models[].gpu_residency | mapping | - | What the model takes on a GPU of this house.
models[].description | text | - | For people.

models[].endpoints[].api_base | http address or os.environ/NAME | required | Base URL of the server; Ollama's ends with its port.
models[].endpoints[].health_url | http address | - | Answers 200 while the server is up; what an on-demand model is probed by.
models[].endpoints[].gpu | auto, none, NVML UUID or index | auto | Which GPU the server uses; auto asks NVML for a loopback address only.

models[].quota.probe_command | text | - | Command that prints JSON; one of the four probes is required.
models[].quota.probe_file | path | - | File that holds JSON.
models[].quota.probe_url | http address | - | Address that answers JSON.
models[].quota.probe_bearer | os.environ/NAME | - | Token sent to probe_url as `Authorization: Bearer`; https or a loopback address only.
models[].quota.probe_spend | day, week or month | - | Budget of what LiteLLM's database says was spent on the model in that time (UTC); cost-gated only.
models[].quota.env | list of names | [] | Environment variables handed to probe_command, beside PATH, HOME and LANG.
models[].quota.threshold_pct | percent | 95 | A window used up to this much counts as used up; quota-gated only.
models[].quota.interval_s | seconds, at least 1 | 60 | Time between readings.
models[].quota.max_age_s | seconds | 900 | An older reading counts as unknown.
models[].quota.windows | list | required for quota-gated | The windows of the subscription; all must have room.
models[].quota.field | dotted path | required for cost-gated | Where the probe's answer says what was spent; not with probe_spend.
models[].quota.limit | number | required for cost-gated | What may be spent, in the unit of field; US dollars with probe_spend.

models[].quota.windows[].name | text | required | The window's name in answers and records.
models[].quota.windows[].field | dotted path | required | Where the probe's answer says the percentage, a number or text like `12.5%`.
models[].quota.windows[].unit | used, left, used_fraction or left_fraction | used | Whether that is the percent used or left, or the same as a fraction of 1.
models[].quota.windows[].resets_at_field | dotted path | - | Where it says when the window starts anew: ISO time, or seconds or milliseconds since the epoch.

models[].gpu_residency.vram_mb | int, MB | required | Memory the model really takes.
models[].gpu_residency.predict_mb | int, MB | computed | What Ollama predicts for the load, where measured; Ollama only.
models[].gpu_residency.never_evict | bool | false | The model must stay resident; never_evict_ids, where given, must agree.
models[].gpu_residency.num_ctx | int, tokens | 4096 for chat | Context that Ollama is told; always sent; Ollama only.
models[].gpu_residency.keep_alive | Go duration or seconds | 5m, -1 if never_evict | How long Ollama keeps the model after a call; Ollama only.
models[].gpu_residency.options | mapping | num_batch 512 | Further options of Ollama's runner; always sent; Ollama only.

routing.tiers | name → list of ids | required | The pools in order of preference; what callers name.
routing.metered_opt_in | list | [] | Keys that may reach metered models: an alias, `sha256:<hex>`, or a mapping.
routing.aliases | name → tier or model id | {} | Other names callers may use.
routing.unlisted_models | deny, metered or allow | metered | How models are treated that the proxy has and the registry does not know.
routing.mode | enforce or observe | enforce | observe: serve as before and log what would be refused; metered models stay enforced.
routing.master_key_metered | bool | false | Whether the master key may reach metered models.
routing.trust_key_alias | bool | false | Whether an alias in LiteLLM's database counts as opted in; anybody may take one there.
routing.trust_custom_auth | bool | false | Whether callers of another custom_auth may be opted in.
routing.max_wait_s | seconds | 30 | Upper bound of the header x-registry-wait.
routing.on_unknown | mapping | see below | What a gate does where a fact is not known.

routing.metered_opt_in[].key | text | - | Alias of the virtual key; key or token is required.
routing.metered_opt_in[].token | sha256:<64 hex> | - | Hash of the virtual key; outranks the alias.
routing.metered_opt_in[].models | list of ids | every metered model | What the grant covers.
routing.metered_opt_in[].expires | quoted date or time | never | When the grant ends; UTC without an offset.
routing.metered_opt_in[].max_calls | count a day (UTC) | no limit | Calls of one model that the key may make a day, over all workers.
routing.metered_opt_in[].note | text | - | Why.

routing.on_unknown.quota | use or skip | use | A quota reading is missing or too old.
routing.on_unknown.vram | refuse or allow | refuse | The GPU's memory is not known.
routing.on_unknown.health | use or skip | use | A server's health is not known.

gpu_residency_policy.never_evict_ids | list of ids | - | The never-evict models; must agree with the models' never_evict.
gpu_residency_policy.co_residency_groups | list | [] | Models that must fit on one GPU together; checked when the file is read.
gpu_residency_policy.baseline | mapping | - | What was measured; its total_mb is the GPU's size where gpus says nothing.
gpu_residency_policy.reserve_mb | int, MB | 0 | Memory kept free on each GPU.
gpu_residency_policy.foreign_mb | int, MB | 0 | Memory that other programs take, where NVML is not available.
gpu_residency_policy.max_loaded_models | int | 3 per GPU | Models that one Ollama holds at once.
gpu_residency_policy.partial_offload | allow, warn or refuse | refuse | What happens to a model that is partly in main memory.
gpu_residency_policy.gpus | index or UUID → mapping | {} | Sizes of the GPUs, where NVML is not available.

gpu_residency_policy.co_residency_groups[].name | name | required | The group's name in messages.
gpu_residency_policy.co_residency_groups[].ids | list of ids | required | Its members; each needs gpu_residency.

gpu_residency_policy.baseline.measured_mb | int, MB | required | What the models of ids took together.
gpu_residency_policy.baseline.total_mb | int, MB | required | Size of the GPU.
gpu_residency_policy.baseline.ids | list of ids | [] | The models that were measured.
gpu_residency_policy.baseline.gpu | text | - | The GPU's name, for people.

gpu_residency_policy.gpus.*.total_mb | int, MB | required | Size of the GPU.
"""

KEY_DOCS: dict[str, KeyDoc] = {
    key: KeyDoc(kind, default, effect)
    for key, kind, default, effect in (
        [cell.strip() for cell in row.split(" | ")] for row in _ROWS.splitlines() if row.strip()
    )
}


def key_tables() -> str:
    """Write one Markdown table per mapping of the file."""
    tables: dict[str, list[str]] = {}
    for key, doc in KEY_DOCS.items():
        home, _, _ = key.rpartition(".")
        row = f"| `{key}` | {doc.kind} | {doc.default} | {doc.effect} |"
        tables.setdefault(home, []).append(row)
    parts = []
    for home, rows in tables.items():
        title = f"`{home}`" if home else "Top level"
        parts.append(
            "\n".join([f"### {title}", "", "| key | type, unit | default | effect |", "|---|---|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"
