"""`litellm-registry serve` beside a bare `litellm --config`: what somebody wins who moves over."""

from __future__ import annotations

from statistics import median

from bench.plugin_cost import ratios
from bench.proxies import fleet, rounds
from bench.rows import Figure, Put, Section, percentile, spread, sureness

TARGETS = {4: 1.10, 16: 1.15}
FIGURES = tuple(
    figure
    for clients, least in TARGETS.items()
    for figure in (
        Figure(f"RPS of serve / bare, {clients} clients", "x", at_least=least),
        Figure(f"p99 of serve / bare, {clients} clients", "x"),
        Figure(f"CPU a request of serve / bare, {clients} clients", "x"),
    )
)


def run(options: object, put: Put) -> None:
    count, requests = (6, 48) if options.quick else (40, 48)
    kept = fleet(options)
    kept.release("plain", "plain-again", "plugin")
    servers = kept.need("serve", "bare")
    for clients in TARGETS:
        found = rounds(servers, count, clients, requests)
        ours, bare = (found[server.kind] for server in servers)
        gain = ratios(ours.rps, bare.rps)
        note = f"{spread(gain)}, ±{sureness(gain):.3f}; {median(ours.rps):.0f} / {median(bare.rps):.0f} RPS"
        put(f"RPS of serve / bare, {clients} clients", median(gain), note)
        tails = [percentile(one.latencies, 0.99) for one in (ours, bare)]
        put(f"p99 of serve / bare, {clients} clients", tails[0] / tails[1], f"{tails[0]:.0f} / {tails[1]:.0f} ms")
        put(
            f"CPU a request of serve / bare, {clients} clients",
            ours.mean_cpu_ms / bare.mean_cpu_ms,
            f"{ours.mean_cpu_ms:.2f} / {bare.mean_cpu_ms:.2f} ms",
        )


SECTION = Section(
    "d", "litellm-registry serve (granian, plugin) / bare litellm (uvicorn, opentelemetry-sdk hidden)", FIGURES, run
)
