"""What the rules across keys look at: a registry, possibly with parts left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from litellm_registry_hook.core.findings import Path
from litellm_registry_hook.core.registry import Model, Registry
from litellm_registry_hook.core.salvage import Salvage


@dataclass(frozen=True)
class Draft:
    """A registry to be judged.

    Attributes:
        registry: what has a legal shape.
        known_ids: every model id of the file, also of models that were left out.
        mended: how the registry relates to the file.
        env: environment for `os.environ/NAME`; None = do not look.

    """

    registry: Registry
    known_ids: frozenset[str]
    mended: Salvage
    env: Mapping[str, str] | None = None

    def models(self) -> Iterator[tuple[Path, Model]]:
        """Return every model with its path."""
        for index, model in enumerate(self.registry.models):
            yield ("models", index), model

    def intact(self, *path: str | int) -> bool:
        """Say whether nothing was left out at, above or below a path."""
        return self.mended.intact(path)

    @cached_property
    def ids_are_known(self) -> bool:
        """Whether there is a list of models at all: without one no id can be called unknown."""
        return not self.mended.spoiled(("models",))

    @cached_property
    def _places(self) -> dict[str, Path]:
        return {model.id: at for at, model in self.models()}

    def whole(self, model_id: str, key: str) -> bool:
        """Say whether a model is there and its `key` was not left out."""
        at = self._places.get(model_id)
        return at is not None and self.intact(*at, key)
