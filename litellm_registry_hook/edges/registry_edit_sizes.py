"""Write measured sizes into a registry file: `models[].gpu_residency.vram_mb`, every other byte as it was.

But for the comment of `litellm-registry init` behind a size, which says where the size came from.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from litellm_registry_hook.core.registry import Registry
from litellm_registry_hook.edges.config_tree import Node, read_document
from litellm_registry_hook.edges.registry_edit import Edited, edit_file
from litellm_registry_hook.edges.yaml_splice import Splicer
from litellm_registry_hook.errors import ConfigError

MODELS: Final = "models"
SECTION: Final = "gpu_residency"
KEY: Final = "vram_mb"
# What `litellm-registry init` wrote behind a size, which then is no longer so.
_SAID: Final = re.compile(r"[ \t]*# ((?:estimated|measured): [^\r\n]*)")


class SizeText(Splicer):
    """The models of one registry text."""

    def put(self, index: int, vram_mb: int) -> None:
        """Make a model's vram_mb this; a model without gpu_residency gets one."""
        model = self._model(index)
        path = f"{MODELS}[{index}].{SECTION}"
        node = self._value_of(model, SECTION, shared=path)
        if node is None or node.is_null:
            if node is not None or SECTION in self.document.data[MODELS][index]:
                raise self._error(model, f"{path} cannot be edited here: write `{SECTION}: {{{KEY}: {vram_mb}}}`")
            self._add(model, vram_mb)
            return
        size = self._value_of(node, KEY, shared=f"{path}.{KEY}") if node.kind == "mapping" else None
        if size is None or size.kind != "scalar" or size.block_scalar:
            raise self._error(node, f"{path}.{KEY} cannot be edited here: write `{KEY}: {vram_mb}` in {path}")
        start, end = self._guarded(size)
        anchor = f"&{size.name} " if size.name is not None else ""
        edits = [(start, end, f"{anchor}{vram_mb}")]
        said = _SAID.match(self.text, end)
        if said is not None:
            edits.append((said.start(1), said.end(1), "measured by litellm-registry calibrate"))
        self._apply(edits)

    def _model(self, index: int) -> Node:
        model = self._list(MODELS).items[index]
        if model.kind != "mapping":
            raise self._error(model, f"{MODELS}[{index}] must be written out here, not as an alias (*{model.name})")
        return model

    def _add(self, model: Node, vram_mb: int) -> None:
        if model.flow:
            self._add_to_braces(model, SECTION, {KEY: vram_mb}, None)
            return
        column = self._column(model.pairs[0][0].start)
        self._insert_lines(self._after(model), f"{' ' * column}{self._key(SECTION)}: {self._flow({KEY: vram_mb})}")


def edit_sizes(path: Path, sizes: Mapping[str, int]) -> Edited:
    """Write sizes by model id; ids that are not in the file any more are left out.

    Raises:
        RegistryError, ConfigError, OptInError: as edit_grants; nothing was written.

    """

    def write(registry: Registry, raw: bytes) -> bytes | None:
        wanted = {
            number: sizes[model.id]
            for number, model in enumerate(registry.models)
            if model.id in sizes and (model.gpu_residency is None or model.gpu_residency.vram_mb != sizes[model.id])
        }
        return edited_sizes(raw, wanted, str(path)) if wanted else None

    return edit_file(path, write)


def edited_sizes(raw: bytes, sizes: Mapping[int, int], name: str) -> bytes:
    """Return a registry's content with these sizes, by place in `models`.

    Raises:
        ConfigError: it is built in a way that cannot be edited without touching bytes of others.

    """
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    splicer = SizeText(raw[len(bom) :].decode("utf-8"), name)
    wanted = _with_sizes(splicer.document.data, sizes)
    for index, vram_mb in sizes.items():
        splicer.put(index, vram_mb)
    try:
        after = read_document(splicer.text, name).data
    except ConfigError as error:
        raise ConfigError(f"{name}: cannot be edited safely, nothing was written: afterwards, {error}") from None
    if after != wanted:
        raise ConfigError(f"{name}: cannot be edited safely, nothing was written: write each {KEY} out in its model")
    return bom + splicer.text.encode("utf-8")


def _with_sizes(data: Any, sizes: Mapping[int, int]) -> Any:
    models = [
        {**model, SECTION: {**(model.get(SECTION) or {}), KEY: sizes[number]}} if number in sizes else model
        for number, model in enumerate(data[MODELS])
    ]
    return {**data, MODELS: models}
