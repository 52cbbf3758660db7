"""Loading and checking a registry, beside what PyYAML's C loader needs for composing the same file alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import yaml

from bench import registries
from bench.rows import Figure, Put, Section, spread
from litellm_registry_hook.edges.registry_file import load_registry

MODELS = 1000
FIGURES = (
    Figure("load and validate / compose, 1,000 models", "x", at_most=3),
    Figure("load and validate, 1,000 models", "ms"),
    Figure("yaml.compose with CSafeLoader, same file", "ms"),
)


def run(options: object, put: Put) -> None:
    pairs = 2 if options.dry else (5 if options.quick else 11)
    content = registries.text(MODELS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model-registry.yaml"
        path.write_text(content, encoding="utf-8")
        load_registry(path)
        composing, loading = [], []
        for _ in range(pairs):
            start = perf_counter()
            yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
            middle = perf_counter()
            load_registry(path)
            composing.append(middle - start)
            loading.append(perf_counter() - middle)
    ratios = [one / other for one, other in zip(loading, composing, strict=True)]
    put("load and validate / compose, 1,000 models", median(ratios), f"median of pairs, {spread(ratios, '.2f')}")
    put("load and validate, 1,000 models", median(loading) * 1000, f"{len(content) / 1000:.0f} kB")
    put("yaml.compose with CSafeLoader, same file", median(composing) * 1000)


SECTION = Section("e", "loading the registry", FIGURES, run)
