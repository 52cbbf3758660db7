"""The proxy with the plugin beside the same proxy without it, and beside a twin of the latter for the noise."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import median

from bench.proxies import Taken, fleet, rounds
from bench.rows import Figure, Put, Section, percentile, spread, sureness

CLIENTS = 4
FIGURES = (
    Figure("noise: RPS of two identical proxies, ratio", "x"),
    Figure("RPS with / without the plugin", "x", at_least=0.97),
    Figure("noise: p99 of two identical proxies, ratio", "x"),
    Figure("p99 with / without the plugin", "x"),
    Figure("p99 with / without, distance from 1 in spreads of the twins", "x", at_most=1),
    Figure("noise: CPU of two identical proxies, ratio", "x"),
    Figure("CPU a request with / without the plugin", "x"),
    Figure("CPU a request added by the plugin", "us"),
    Figure("RPS without the plugin", "1/s"),
    Figure("p50 without the plugin", "ms"),
    Figure("p99 without the plugin", "ms"),
    Figure("streams: RPS with / without the plugin", "x", at_least=0.97),
)


def ratios(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(one, other, strict=True)]


def p99s(taken: Taken, blocks: int) -> list[float]:
    """Return the p99 of each of `blocks` equal stretches of a proxy's requests; one short run has too few for one."""
    size = len(taken.latencies) // blocks
    return [percentile(taken.latencies[n * size : (n + 1) * size], 0.99) for n in range(blocks)]


def run(options: object, put: Put) -> None:
    count, requests = (8, 32) if options.quick else (36, 60)
    servers = fleet(options).need("plain", "plain-again", "plugin")
    found = rounds(servers, count, CLIENTS, requests)
    plain, twin, ours = (found[server.kind] for server in servers)
    # Each round gives one pair: the plugin against the geometric mean of the twins, so that neither twin's luck counts whole.
    middle = [sqrt(a * b) for a, b in zip(plain.rps, twin.rps, strict=True)]
    noise, gain = ratios(twin.rps, plain.rps), ratios(ours.rps, middle)
    put("noise: RPS of two identical proxies, ratio", median(noise), f"{spread(noise)}, ±{sureness(noise):.3f}")
    put("RPS with / without the plugin", median(gain), f"{spread(gain)}, ±{sureness(gain):.3f}; {CLIENTS} clients")

    blocks = 2 if options.quick else 6
    tails = [p99s(one, blocks) for one in (plain, twin, ours)]
    tail_noise = [a / b for a in tails[1] for b in tails[0]]
    tail = [a / b for a in tails[2] for b in [*tails[0], *tails[1]]]
    put("noise: p99 of two identical proxies, ratio", median(tail_noise), spread(tail_noise, ".2f"))
    put("p99 with / without the plugin", median(tail), spread(tail, ".2f"))
    apart = max(abs(percentile(tail_noise, share) - 1) for share in (0.1, 0.9))
    distance = max(0.0, median(tail) - 1) / apart if apart else float("nan")
    put("p99 with / without, distance from 1 in spreads of the twins", distance, "0 where ours is the faster; up to 1 is inside the spread")

    base = (plain.cpu_ms + twin.cpu_ms) / 2
    put("noise: CPU of two identical proxies, ratio", twin.cpu_ms / plain.cpu_ms, f"over {plain.requests} requests each")
    put("CPU a request with / without the plugin", ours.cpu_ms / base, f"{ours.cpu_ms:.2f} / {base:.2f} ms; steadier than RPS on a busy machine")
    put("CPU a request added by the plugin", (ours.cpu_ms - base) * 1000, f"noise of the twins: {abs(twin.cpu_ms - plain.cpu_ms) * 1000:.0f} us")
    both = [*plain.latencies, *twin.latencies]
    put("RPS without the plugin", median([*plain.rps, *twin.rps]))
    put("p50 without the plugin", percentile(both, 0.5))
    put("p99 without the plugin", percentile(both, 0.99), f"with: {percentile(ours.latencies, 0.99):.1f} ms, of all requests")

    streamed = rounds(servers, 4 if options.quick else 12, CLIENTS, requests, stream=True)
    middle = [sqrt(a * b) for a, b in zip(streamed["plain"].rps, streamed["plain-again"].rps, strict=True)]
    gain, noise = ratios(streamed["plugin"].rps, middle), ratios(streamed["plain-again"].rps, streamed["plain"].rps)
    cpu = streamed["plugin"].cpu_ms - (streamed["plain"].cpu_ms + streamed["plain-again"].cpu_ms) / 2
    note = f"{spread(gain)}; twins {median(noise):.3f}; CPU {cpu * 1000:+.0f} us a request"
    put("streams: RPS with / without the plugin", median(gain), note)


SECTION = Section("c", "proxy with and without the plugin, same runner and upstream", FIGURES, run)
