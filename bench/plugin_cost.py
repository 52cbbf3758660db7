"""The proxy with the plugin beside the same proxy without it, and beside a twin of the latter for the noise."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import median

from bench.proxies import fleet, rounds
from bench.rows import Figure, Put, Section, percentile, spread, sureness

CLIENTS = 4
FIGURES = (
    Figure("noise: RPS of two identical proxies, ratio", "x"),
    Figure("RPS with / without the plugin", "x", at_least=0.97),
    Figure("noise: p99 of two identical proxies, ratio", "x"),
    Figure("p99 with / without the plugin", "x"),
    Figure("p99 with / without, its distance above 1 in spreads of the twins", "x", at_most=1),
    Figure("noise: CPU of two identical proxies, ratio", "x"),
    Figure("CPU a request with / without the plugin", "x"),
    Figure("CPU a request added by the plugin", "us"),
    Figure("RPS without the plugin", "1/s"),
    Figure("p50 without the plugin", "ms"),
    Figure("p99 without the plugin", "ms"),
    Figure("streams: RPS with / without the plugin", "x", at_least=0.97),
)


def middle(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the geometric means of two series."""
    return [sqrt(a * b) for a, b in zip(one, other, strict=True)]


def ratios(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(one, other, strict=True)]


def run(options: object, put: Put) -> None:
    # Short runs: what else happens on the machine changes within seconds, and a round should not see it change.
    count, requests, stretches = (12, 24, 3) if options.quick else (72, 30, 6)
    servers = fleet(options).need("plain", "plain-again", "plugin")
    found = rounds(servers, count, CLIENTS, requests)
    plain, twin, ours = (found[server.kind] for server in servers)
    # Each round gives one pair: the plugin against the geometric mean of the twins, so that neither twin's luck counts whole.
    noise, gain = ratios(twin.rps, plain.rps), ratios(ours.rps, middle(plain.rps, twin.rps))
    put("noise: RPS of two identical proxies, ratio", median(noise), f"{spread(noise)}, ±{sureness(noise):.3f}")
    put("RPS with / without the plugin", median(gain), f"{spread(gain)}, ±{sureness(gain):.3f}; {CLIENTS} clients")

    plain_p99, twin_p99, our_p99 = (one.p99s(stretches) for one in (plain, twin, ours))
    noise, gain = ratios(twin_p99, plain_p99), ratios(our_p99, middle(plain_p99, twin_p99))
    each = f"stretches of {len(plain.latencies) // stretches} requests"
    put("noise: p99 of two identical proxies, ratio", median(noise), f"{spread(noise, '.2f')} {each}")
    put("p99 with / without the plugin", median(gain), f"{spread(gain, '.2f')} {each}")
    apart = max(abs(ratio - 1) for ratio in noise)
    distance = max(0.0, median(gain) - 1) / apart if apart else 0.0
    put(
        "p99 with / without, its distance above 1 in spreads of the twins",
        distance,
        "0: ours is no slower; up to 1: inside the spread",
    )

    plain_cpu, twin_cpu, our_cpu = (one.cpus(stretches) for one in (plain, twin, ours))
    noise, gain = ratios(twin_cpu, plain_cpu), ratios(our_cpu, middle(plain_cpu, twin_cpu))
    added = [(a - b) * 1000 for a, b in zip(our_cpu, middle(plain_cpu, twin_cpu), strict=True)]
    apart = [(a - b) * 1000 for a, b in zip(twin_cpu, plain_cpu, strict=True)]
    put("noise: CPU of two identical proxies, ratio", median(noise), spread(noise))
    put("CPU a request with / without the plugin", median(gain), f"{spread(gain)}; steadier than RPS on a busy machine")
    put(
        "CPU a request added by the plugin",
        median(added),
        f"{spread(added, '.0f')}; between the twins: {median(apart):.0f}",
    )
    both = [*plain.latencies, *twin.latencies]
    put(
        "RPS without the plugin",
        median([*plain.rps, *twin.rps]),
        f"CPU {median([*plain_cpu, *twin_cpu]):.2f} ms a request",
    )
    put("p50 without the plugin", percentile(both, 0.5))
    put(
        "p99 without the plugin",
        percentile(both, 0.99),
        f"with: {percentile(ours.latencies, 0.99):.1f} ms, of all requests",
    )

    streamed = rounds(servers, 6 if options.quick else 30, CLIENTS, requests, stream=True)
    plain, twin, ours = (streamed[server.kind] for server in servers)
    gain, noise = ratios(ours.rps, middle(plain.rps, twin.rps)), ratios(twin.rps, plain.rps)
    cpu = ours.mean_cpu_ms - (plain.mean_cpu_ms + twin.mean_cpu_ms) / 2
    note = f"{spread(gain)}, ±{sureness(gain):.3f}; twins {median(noise):.3f}; CPU {cpu * 1000:+.0f} us a request"
    put("streams: RPS with / without the plugin", median(gain), note)


SECTION = Section("c", "proxy with and without the plugin, same runner and upstream", FIGURES, run)
