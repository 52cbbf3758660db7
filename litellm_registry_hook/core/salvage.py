"""What can still be judged of a registry whose shape is wrong.

Misspelled keys are read as what they meant, other broken parts are left out, until the rest has a legal shape. The
rules across keys then run on that rest, so one slip does not hide another. What was left out is remembered: a rule
must not complain about something that is only missing because it was broken.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from litellm_registry_hook.core.findings import Finding, Path
from litellm_registry_hook.core.keys import container_at
from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.core.shape import Source, shape_errors, shape_findings, trim, value_at
from litellm_registry_hook.core.suggest import nearest

_ROUNDS = 20
_MODEL_KEY = 3
# A stand-in for a required key of a model, and what cannot be judged without the real one.
_FILLERS: dict[str, tuple[Any, tuple[Path, ...]]] = {
    "role": ("chat", (("mode",), ("dimensions",), ("litellm", "model"))),
    "lifecycle": ("cost-gated", (("quota",),)),
    "metered": (True, (("opt_in_required",),)),
}
_ROOT_DEFAULTS: dict[str, Any] = {"version": 1, "models": [], "routing": {"tiers": {}}}


@dataclass
class Salvage:
    """A copy of the tree that is being mended.

    Attributes:
        tree: the copy.
        damaged: paths of the file whose content was left out.
        renamed: key as written, by the path under which the copy has it.
        origins: the indices that a shortened list's items have in the file, by the list's identity.

    """

    tree: Any
    damaged: set[Path] = field(default_factory=set)
    renamed: dict[Path, str] = field(default_factory=dict)
    origins: dict[int, list[int]] = field(default_factory=dict)

    def original(self, path: Path) -> Path:
        """Return the path in the file of a path in the copy."""
        here = self.tree
        out: list[int | str] = []
        for number, step in enumerate(path):
            name: int | str = self.renamed.get(path[: number + 1], step)
            if isinstance(here, list) and isinstance(step, int):
                origin = self.origins.get(id(here))
                name = origin[step] if origin is not None and step < len(origin) else step
            out.append(name)
            here = value_at(here, (step,))
        return tuple(out)

    def intact(self, path: Path) -> bool:
        """Say whether nothing was left out at, above or below a path of the copy."""
        return not self.damaged or not (self.spoiled(path) or self.original(path) in self._above)

    def spoiled(self, path: Path) -> bool:
        """Say whether a path of the copy is what was left out, or lies inside of it."""
        where = self.original(path)
        return any(where[:number] in self.damaged for number in range(len(where) + 1))

    @cached_property
    def _above(self) -> frozenset[Path]:
        """Every place above something that was left out; asked only once the copy is mended."""
        return frozenset(lost[:number] for lost in self.damaged for number in range(len(lost)))

    def below_renamed(self, path: Path) -> bool:
        """Say whether a path of the copy leads through a misspelled key."""
        return any(path[:number] in self.renamed for number in range(1, len(path) + 1))

    def rename_typos(self, errors: list[dict[str, Any]]) -> bool:
        """Read misspelled keys as what they meant; say whether there was one."""
        found = False
        for error in errors:
            if error["type"] != "extra_forbidden":
                continue
            path, _, _ = trim(error["loc"], error["type"], self.tree)
            where = container_at(path[:-1])
            holder = value_at(self.tree, path[:-1])
            key = str(path[-1])
            meant = nearest(key, set(where.model_fields) - {key}) if where is not None else None
            if meant is None or meant in holder:
                continue
            holder[meant] = holder.pop(path[-1])
            self.renamed[(*path[:-1], meant)] = key
            found = True
        return found

    def prune(self, errors: list[dict[str, Any]]) -> None:
        """Leave out every part that an error is about."""
        doomed: set[Path] = set()
        for error in errors:
            path, _, _ = trim(error["loc"], error["type"], self.tree)
            if not path:
                continue
            if len(path) == 1 and path[0] in _ROOT_DEFAULTS:
                self.damaged.add(self.original(path))
                self.tree[path[0]] = copy.deepcopy(_ROOT_DEFAULTS[str(path[0])])
            elif error["type"] == "missing" and path[:-1] == ("routing",):
                self.damaged.add(self.original(path))
                self.tree["routing"][path[-1]] = {}
            elif len(path) == _MODEL_KEY and path[0] == "models" and path[-1] in _FILLERS:
                self._fill(path)
            else:
                doomed.add(path[:-1] if error["type"] == "missing" else path)
        for path in doomed:
            self.damaged.add(self.original(path))
        for path in sorted(doomed, key=_order, reverse=True):
            self._drop(path)

    def _fill(self, path: Path) -> None:
        """Give a model a stand-in for a required key, and leave alone what hangs on it."""
        key = str(path[-1])
        filler, hanging = _FILLERS[key]
        value_at(self.tree, path[:-1])[key] = filler
        self.damaged.add(self.original(path))
        self.damaged.update((*self.original(path[:-1]), *other) for other in hanging)

    def _drop(self, path: Path) -> None:
        holder = value_at(self.tree, path[:-1])
        step = path[-1]
        if isinstance(holder, dict):
            holder.pop(step, None)
        elif isinstance(holder, list) and isinstance(step, int) and step < len(holder):
            origin = self.origins.setdefault(id(holder), list(range(len(holder))))
            del holder[step], origin[step]


def _order(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple((step, "") if isinstance(step, int) else (-1, step) for step in path)


def salvage(
    tree: dict[Any, Any], errors: list[dict[str, Any]], source: Source
) -> tuple[Registry, Salvage, list[Finding]]:
    """Mend a copy of a tree until its shape is legal.

    Returns:
        the registry that is left, how it relates to the file, and what is wrong inside of misspelled keys.

    """
    mended = Salvage(copy.deepcopy(tree))
    inner: list[Finding] = []
    registry: Registry | None = None
    if mended.rename_typos(errors):
        registry, errors = shape_errors(mended.tree)

        def renamed_source(path: Path, at: str) -> str | None:
            return source(mended.original(path), at)

        found = shape_findings(errors, mended.tree, renamed_source)
        inner = [replace(one, path=mended.original(one.path)) for one in found if mended.below_renamed(one.path)]
    for _ in range(_ROUNDS):
        if registry is not None:
            return registry, mended, inner
        mended.prune(errors)
        registry, errors = shape_errors(mended.tree)
    return registry or Registry.model_validate(_ROOT_DEFAULTS), mended, inner
