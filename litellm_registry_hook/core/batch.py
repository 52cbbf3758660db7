"""Batch files: what each line calls, decided by the gates of a request.

A batch runs at its provider, on the account that the file was uploaded to, and nobody sees its calls. So the file is
read before it leaves: one model a file (OpenAI's own rule for a batch), and that model must be one the caller may use
on that account.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from litellm_registry_hook.core.match import same_model
from litellm_registry_hook.core.plan import Ask, Index, Running, metered_by_name, metered_skip
from litellm_registry_hook.core.refusal import Refusal, Skip, all_refused, refuse
from litellm_registry_hook.core.registry import Model
from litellm_registry_hook.core.sanitise import shown

MAX_LINES: Final = 50_000
MAX_BYTES: Final = 200 * 1024 * 1024
"""OpenAI's own limits of a batch input file."""
MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""One line is parsed in one step, which nothing else in the process can interrupt."""
THROUGH_ROUTER: Final = (
    "files and batches that LiteLLM itself spreads over deployments or runs line by line are closed (managed files, "
    "target_model_names, enable_loadbalancing_on_batch_endpoints); name one model with ?model=ID when uploading"
)
PROVIDERS: Final = frozenset({"openai", "azure"})
"""Where the lines name the model. Elsewhere the model comes from the batch itself, a bucket or a job."""


@dataclass(frozen=True, slots=True)
class Account:
    """Where a file or a batch goes.

    Attributes:
        here: deployments of the registry that are called with the very same address and key.
        metered: whether a metered model of the registry is served at this address.

    """

    here: tuple[Running, ...]
    metered: bool


@dataclass(frozen=True, slots=True)
class Called:
    """What the lines of a file call.

    Attributes:
        name: as the client wrote it. upstream: as the provider knows it; this is what leaves.
        model: the registry's entry; None for a model that it does not know.
        booked_as: what a metered call is booked as; None for a free one.

    """

    name: str
    upstream: str
    model: Model | None
    booked_as: str | None


def bad_file(message: str) -> Refusal:
    """Refuse a file for what is in it."""
    return refuse("bad_batch_file", f"batch file: {message}; nothing was sent")


def read_line(raw: bytes, number: int) -> dict[str, Any] | Refusal:
    """Read one line of a batch file: an object with a body that names its model.

    Args:
        raw: the line. number: its number in the file, from 1.

    """
    try:
        line = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return bad_file(f"line {number} is not a JSON object")
    if not isinstance(line, dict):
        return bad_file(f"line {number} is not a JSON object")
    body = line.get("body")
    if not isinstance(body, dict):
        return bad_file(f"line {number} has no body")
    if not isinstance(body.get("model"), str) or not body["model"]:
        return bad_file(f"line {number} names no model in its body")
    return line


def write_line(line: dict[str, Any]) -> bytes:
    """Write a line as it leaves: nothing but what was read, so that a doubled key cannot say two things."""
    try:
        return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _no_constant(word: str) -> float:
    raise ValueError(word)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the adapter's gates say of names.

    Attributes:
        upstream_of: the provider's name of a registry model.
        foreign: the gate of a model that the registry does not know; None lets it through.
        books_foreign: whether such a call is booked as a metered one.

    """

    upstream_of: Callable[[Model], str]
    foreign: Callable[[str, Ask], Refusal | None]
    books_foreign: bool


def called(index: Index, account: Account, name: str, ask: Ask, rules: Rules) -> Called | Refusal:
    """Decide the model of a file.

    A tier, an alias or a model id stands for the first member that the caller may use and that is served on this
    account. Any other name is the provider's own: that of a registry entry there, of a metered entry anywhere, or of a
    model that the registry does not know.

    Args:
        index: the registry and what runs of it. account: where the file goes. name: as the lines say.
        ask: the request. rules: the gates of names.

    """
    pool = index.pools.get(name)
    skips: list[Skip] = []
    for model in _served(pool.members, account) if pool is not None else ():
        skip = metered_skip(index.registry, model, ask)
        if skip is None:
            return _of(model, name, rules)
        skips.append(skip)
    if skips:
        return all_refused(name, pool.tier if pool is not None else None, skips)
    owner = _owner(index, account, name)
    if owner is not None:
        skip = metered_skip(index.registry, owner, ask)
        return _of(owner, name, rules) if skip is None else all_refused(name, None, (skip,))
    if pool is not None:
        return bad_file(
            f"{shown(name)} is not served on the account that this file goes to; name one of its models when "
            f"uploading, with ?model=ID ({', '.join(pool.order)})"
        )
    return _foreign(index, account, name, ask, rules)


def _served(members: Sequence[Model], account: Account) -> tuple[Model, ...]:
    here = {one.model.id for one in account.here}
    return tuple(model for model in members if model.id in here)


def _of(model: Model, name: str, rules: Rules) -> Called:
    return Called(name, rules.upstream_of(model), model, model.id if model.metered else None)


def _owner(index: Index, account: Account, name: str) -> Model | None:
    """Return the registry entry that a provider's own name means; a metered one counts wherever it is served."""
    here = [one.model for one in account.here if same_model(one.model.litellm_model, name)]
    here.sort(key=lambda model: not model.metered)
    anywhere = (one for one in index.registry.models if one.metered and same_model(one.litellm_model, name))
    return here[0] if here else next(anywhere, None)


def _foreign(index: Index, account: Account, name: str, ask: Ask, rules: Rules) -> Called | Refusal:
    """Gate a name that the registry does not know; where a metered model is served it always counts as metered.

    A dated snapshot or a fine-tuned model costs as its base does, whatever unlisted_models says of the proxy's own.
    """
    if account.metered and not rules.books_foreign and index.registry.routing.unlisted_models != "deny":
        skip = metered_by_name(index.registry, name, ask)
        if skip is None:
            return Called(name, name, None, name)
        return refuse(
            "unlisted_model",
            f"model {shown(name)} is not in the registry and this account serves metered models, so it counts as "
            f"metered: {skip.reason}; or add it to model-registry.yaml",
        )
    refusal = rules.foreign(name, ask)
    return refusal if refusal is not None else Called(name, name, None, name if rules.books_foreign else None)
