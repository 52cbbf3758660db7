"""The status as people see it: tables and bars, from the same data as --json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from litellm_registry_hook.cli.screen import words
from litellm_registry_hook.core.availability.moments import span

WIDTH: Final = 40
# Part of a GPU's memory: its letter in the bar, its colour, what it is called.
PARTS: Final = {
    "never_evict_mb": ("#", "green", "never-evict"),
    "resident_mb": ("=", "cyan", "resident"),
    "promised_mb": ("+", "yellow", "being loaded"),
    "foreign_mb": ("x", "magenta", "others"),
    "free_mb": (".", "dim", "free"),
}
FULL_PCT: Final = 100.0


def picture(data: Mapping[str, Any]) -> RenderableType:
    """Return the status for a terminal."""
    return Group(*_sections(data))


def _sections(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield from _registry(data["registry"], data["state"])
    if "tiers" not in data:
        return
    yield Text()
    yield _tiers(data["tiers"])
    if data["gpus"]:
        yield Text()
        yield from _gpus(data["gpus"])
    bad = [one for one in data["servers"] if one["state"] != "up"]
    for one in bad:
        yield words(f"server {one['api_base']}: {one['state']} {one['reason'] or ''}".rstrip(), "yellow")
    for one in data["never_evict_missing"]:
        yield words(f"never-evict {one['model']} at {one['api_base']}: {one['reason']}", "bold red")
    for one in data["loads"]:
        yield words(f"loading {one['model']} ({one['mb']} MB) at {one['api_base']} for {span(one['for_s'])}", "yellow")
    for one in data["waiting"]:
        yield words(f"{one['requests']} request(s) wait for memory of {one['machine']}", "yellow")
    if data["quotas"]:
        yield Text()
        yield _quotas(data["quotas"])
    yield Text()
    yield words(_grants(data["opt_ins"]))


def _registry(file: Mapping[str, Any], state: Mapping[str, Any]) -> Iterator[Text]:
    what = f", {file['models']} models" if file["models"] is not None else ""
    mode = f", mode {file['mode']}" if file["mode"] not in {None, "enforce"} else ""
    loaded = f", in force since {file['loaded_at']}" if file["loaded_at"] else ""
    yield words(f"registry  {file['path']} ({file['digest'] or 'no file'}{what}{mode}{loaded})")
    for line in file["broken"]:
        yield words(f"  not valid: {line}", "bold red")
    trouble = f": {state['error']}" if state["error"] else ""
    yield words(f"state     {state['place'] or 'none'}{trouble}", "bold red" if trouble else "")
    yield words(f"workers   {state['workers']}")
    for one in state["in_force"]:
        if one["digest"] != file["digest"]:
            yield words(f"  {one['worker']} has {one['digest']} in force, since {one['loaded_at']}", "yellow")
        for line in one["broken"] or ():
            yield words(f"  {one['worker']} keeps its last good registry: {line}", "bold red")


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, overflow="fold", no_wrap=number == 0)
    return table


def _tiers(tiers: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("TIER", "SERVED BY", "NEXT", "PASSED OVER")
    for one in tiers:
        name = ", ".join([one["tier"], *one["aliases"]])
        serves = words(one["deployment"], "green") if one["deployment"] else words(f"nobody: {one['code']}", "red")
        skipped = ", ".join(f"{skip['model']}={skip['code']}" for skip in one["skipped"])
        table.add_row(words(name), serves, words(", ".join(one["next"]) or "-"), words(skipped or "-"))
    return table


def _gpus(gpus: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    for one in gpus:
        name = " ".join(part for part in ("GPU", one["gpu"], one["name"], "on", one["machine"]) if part)
        if one["total_mb"] is None:
            yield words(f"{name}: not known: {one['reason']}", "yellow")
        else:
            yield Text.assemble(words(f"{name}  "), bar(one), words(f"  {one['total_mb']} MB ({one['source']})"))
            parts = ", ".join(f"{letter} {label} {one[part]}" for part, (letter, _, label) in PARTS.items())
            yield words(f"  {parts} MB")
        for model in one["models"]:
            yield words(f"  {_loaded(model)}")


def _loaded(model: Mapping[str, Any]) -> str:
    stays = "pinned" if model["pinned"] else f"leaves in {span(model['leaves_in_s'])}"
    busy = f", {model['in_flight']} in flight" if model["in_flight"] else ""
    return f"{model['model']} {model['mb']} MB, {model['part']}, {stays}{busy}, at {model['api_base']}"


def bar(gpu: Mapping[str, Any]) -> Text:
    """Return the memory of a GPU as a bar; what is promised is shown as taken from what is free."""
    total = float(gpu["total_mb"]) or 1.0
    promised = min(float(gpu["promised_mb"]), float(gpu["free_mb"]))
    sizes = {**{part: float(gpu[part]) for part in PARTS}, "promised_mb": promised}
    sizes["free_mb"] -= promised
    text, done, cells = Text("["), 0.0, 0
    for part, (letter, style, _) in PARTS.items():
        done += sizes[part]
        upto = min(WIDTH, round(done / total * WIDTH))
        text.append(letter * max(0, upto - cells), style=style)
        cells = max(cells, upto)
    text.append(" " * (WIDTH - cells))
    return text.append("]")


def _quotas(quotas: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("MODEL", "WHAT", "USED", "STATE", "READ")
    for one in quotas:
        used = one.get("used_pct")
        text = one["text"]
        style = {True: "", False: "red", None: "yellow"}[one["ok"]]
        age = f"{span(one['age_s'])} ago" if one["age_s"] is not None else "never"
        gauge = used_bar(used) if used is not None else Text("-")
        table.add_row(words(one["model"]), words(f"{one['kind']} {one['name']}"), gauge, words(text, style), words(age))
    return table


def used_bar(percent: float, width: int = 10) -> Text:
    """Return a percentage as a bar."""
    full = min(width, max(0, round(percent / FULL_PCT * width)))
    return Text.assemble("[", ("#" * full, "red" if full == width else "green"), "." * (width - full), "]")


def _grants(grants: Mapping[str, Any]) -> str:
    soonest = grants["soonest"]
    ends = f"; the first to end is {soonest['key']}'s, at {soonest['expires']}" if soonest is not None else ""
    past = f"; {grants['expired']} have ended" if grants["expired"] else ""
    return f"opt-ins   {grants['count']}{ends}{past}"
