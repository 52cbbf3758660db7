"""`litellm-registry explain`: who would serve now, and why the others would not."""

from __future__ import annotations

import os
from math import ceil
from typing import TYPE_CHECKING

import click

from litellm_registry_hook.cli.names import model_ids, opted_in, tier_names
from litellm_registry_hook.cli.options import common_options, example, read_registry, registry_file, wants_json
from litellm_registry_hook.cli.output import notice, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from litellm_registry_hook.core.explain import Candidate, Explanation
    from litellm_registry_hook.core.registry import Registry
    from litellm_registry_hook.edges.store.port import State

EXIT_NO = 1
WORDS = {"serves": ("serves", "bold green"), "next": ("tried next", "cyan"), "skipped": ("passed over", "yellow")}


@click.command(
    "explain",
    epilog=example(
        "litellm-registry explain --tier large",
        "litellm-registry explain --tier large --key agent:torgash --allow-metered",
    ),
)
@click.option("--tier", metavar="T", shell_complete=tier_names, help="A tier, or an alias.")
@click.option("--model", metavar="M", shell_complete=model_ids, help="A model of the registry.")
@click.option(
    "--key",
    metavar="KEY",
    shell_complete=opted_in,
    help="Who asks: an alias, sha256:<hex> or sk-… (hashed).",
)
@click.option("--allow-metered", is_flag=True, help="The request allows models that cost money.")
@common_options
def explain(tier: str | None, model: str | None, key: str | None, allow_metered: bool) -> int:
    """Say who would serve a tier or a model now, who would be tried next, and why the others would be passed over.

    It is the proxy's own decision, on the state and a look at the GPUs and Ollama servers. No model is called. A key's
    permissions in LiteLLM's database are known to the proxy alone: ask it at /registry/explain.

    Exit codes: 0 somebody would serve, 1 refused, 2 error.
    """
    from litellm_registry_hook.core.explain import asked_name, explanation_data  # noqa: PLC0415

    if (tier is None) == (model is None):
        raise click.UsageError("give --tier T or --model M, one of them")
    registry = read_registry()
    found = _explain(registry, asked_name(registry, tier, model), key, allow_metered=allow_metered)
    if wants_json():
        print_json(explanation_data(found))
    else:
        _show(found)
    return 0 if found.serves is not None else EXIT_NO


def _explain(registry: Registry, name: str, key: str | None, *, allow_metered: bool) -> Explanation:
    from litellm_registry_hook.core.consent import ANONYMOUS  # noqa: PLC0415
    from litellm_registry_hook.core.explain import whole_index  # noqa: PLC0415
    from litellm_registry_hook.core.plan import Ask  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_edit_desk import Desk, utc_now  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_edit_list import caller_named  # noqa: PLC0415
    from litellm_registry_hook.edges.registry_file import registry_path  # noqa: PLC0415
    from litellm_registry_hook.why.gather import explained  # noqa: PLC0415
    from litellm_registry_hook.why.looks import look  # noqa: PLC0415

    state = state_of(registry)
    try:
        caller = ANONYMOUS
        if key is not None:
            if state is None:
                raise click.UsageError("--key needs the state, which has no usable address")
            named, seen = caller_named(Desk(registry_path(registry_file()), state, ""), registry, key, utc_now())
            if seen is None:
                notice(f"the key {named.alias or named.pinned} is revoked or expired: the proxy refuses it")
            caller = seen or ANONYMOUS
        looks = look(registry, os.environ, state)
        found = explained(looks, whole_index(registry), name, Ask(caller, allow_metered, utc_now()))
    finally:
        if state is not None:
            state.close()
    assert found is not None
    return found


def state_of(registry: Registry | None) -> State | None:
    """Return the state; None, with a notice, where its address is of no use, as the proxy goes on without it."""
    import logging  # noqa: PLC0415

    from litellm_registry_hook.cli.keys_store import open_store  # noqa: PLC0415
    from litellm_registry_hook.errors import StateError  # noqa: PLC0415

    # What is said to a proxy's operator in its log is said by the command itself.
    log = logging.getLogger("litellm_registry_hook")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    log.propagate = False
    try:
        return open_store(registry)
    except StateError as error:
        notice(f"warning: {error}")
        return None


def _show(found: Explanation) -> None:
    from rich.table import Table  # noqa: PLC0415

    from litellm_registry_hook.cli.screen import show, words  # noqa: PLC0415
    from litellm_registry_hook.core.explain import caller_text  # noqa: PLC0415

    what = f"tier {found.tier}" if found.tier == found.name else found.name
    if found.tier is not None and found.tier != found.name:
        what = f"{found.name} (tier {found.tier})"
    consent = "allows metered models" if found.ask.allow_metered else "does not allow metered models"
    head = words(f"{what}, asked by {caller_text(found.ask.caller)}; the request {consent}")
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("MODEL", "VERDICT", "WHY"):
        table.add_column(name, overflow="fold", no_wrap=name != "WHY")
    for one in found.candidates:
        word, style = WORDS[one.word]
        table.add_row(words(one.model.id), words(word, style), _reasons(one))
    show(head, table, words(*_outcome(found)))


def _outcome(found: Explanation) -> tuple[str, str]:
    """Return the last line and its style."""
    if found.serves is not None:
        return f"served by {found.serves.id}", "bold green"
    assert found.refusal is not None
    after = found.refusal.retry_after_s
    when = f", Retry-After {max(1, ceil(after))} s" if after is not None else ""
    return f"refused: {found.refusal.status} {found.refusal.code}{when}", "bold red"


def _reasons(one: Candidate) -> Text:
    from rich.text import Text  # noqa: PLC0415

    from litellm_registry_hook.cli.audit_cmd import plain  # noqa: PLC0415

    return Text("\n").join(Text(plain(line)) for line in _lines(one))


def _lines(one: Candidate) -> Iterator[str]:
    from litellm_registry_hook.core.availability.moments import span  # noqa: PLC0415
    from litellm_registry_hook.core.explain import gpu_word  # noqa: PLC0415

    empty = True
    if one.skip is not None:
        yield f"{one.skip.code}: {one.skip.reason}"
        empty = False
    if one.consent is not None:
        grant = one.consent.grant
        ends = f" until {grant.expires:%Y-%m-%d %H:%M %Z}" if grant is not None and grant.expires is not None else ""
        yield f"consent: key {f'opted in ({grant.source}){ends}' if grant is not None else 'not opted in'}"
        empty = False
    for place in one.places:
        told = one.skip is not None and place.skip is not None and place.skip.reason == one.skip.reason
        if place.gpu is not None and not told:
            word, text = gpu_word(place.gpu)
            yield f"{place.deployment}: {word}: {text}"
            empty = False
        elif place.skip is not None and not told:
            yield f"{place.deployment}: {place.skip.code}: {place.skip.reason}"
            empty = False
    for known in one.known:
        age = f" ({span(known.age_s)} ago)" if known.age_s is not None else ""
        yield f"{known.kind} {known.name}: {known.text}{age}"
        empty = False
    if empty:
        yield "nothing stands in the way"
