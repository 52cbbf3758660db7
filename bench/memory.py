"""What the plugin takes of a worker's memory, and whether it stays at that."""

from __future__ import annotations

from statistics import linear_regression

from bench.proxies import fleet
from bench.rows import Figure, Put, Section

CLIENTS = 8
FIGURES = (
    Figure("RSS of a worker without the plugin, at the start", "MB"),
    Figure("RSS added by the plugin, at the start", "MB"),
    Figure("growth without the plugin, over the second half", "kB/request"),
    Figure("growth with the plugin, over the second half", "kB/request"),
)


def run(options: object, put: Put) -> None:
    total, step = (500, 50) if options.quick else (5000, 250)
    servers = fleet(options).need("plain", "plugin")
    seen = {server.kind: [(0, server.rss_mb)] for server in servers}
    for done in range(step, total + 1, step):
        for server in servers:
            server.drive(CLIENTS, step)
            seen[server.kind].append((done, server.rss_mb))
    plain, ours = servers
    put("RSS of a worker without the plugin, at the start", plain.rss_at_start, "after 20 requests")
    put("RSS added by the plugin, at the start", ours.rss_at_start - plain.rss_at_start, "after 20 requests")
    for server, name in ((plain, "without"), (ours, "with")):
        points = seen[server.kind]
        half = points[len(points) // 2 :]
        slope = linear_regression([n for n, _ in half], [mb for _, mb in half]).slope * 1000
        note = f"{points[0][1]:.0f} MB before, {half[0][1]:.1f} after {half[0][0]}, {points[-1][1]:.1f} after {points[-1][0]} requests"
        put(f"growth {name} the plugin, over the second half", slope, note)


SECTION = Section("g", "memory of a worker", FIGURES, run)
