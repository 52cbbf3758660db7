"""The CPU that our hooks add to a request, in process: the real objects on a real Router, LiteLLM's own work left out.

The plugin attaches itself as in a proxy (`proxy_handler_instance`), then the app below the wrap and the walk's original
are replaced by ones that only call what LiteLLM would call: pre-call hook, walk, choice of deployment, deployment hook.
The same app without those calls is the zero line, so its dicts and coroutines do not count. `levels` add one of
our parts at a time, and so say where the time goes. Time is the thread's CPU time: what else runs on the machine counts
only by the caches it spoils.

    python -m bench.hooks [--quick] [--profile [large|paid|small|kimi]]   # the child process of section b; importing LiteLLM takes seconds
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench.registries import KEY, ROOT
from bench.rows import Figure, Put, Section, spread

SCENES = {
    "tier, free member": ("large", False),
    "tier, metered member, consent and opted-in key": ("paid", True),
    "tier, local model on the GPU": ("small", False),
    "model named": ("kimi", False),
}
LEVELS = ("wrap", "pre-call hook", "walk", "choice of deployment", "deployment hook")
MAIN = "tier, free member"
FIGURES = (
    # A metered call waits for its audit record, so it has no target.
    *(Figure(f"all hooks: {scene}", "us", at_most=None if consent else 50) for scene, (_, consent) in SCENES.items()),
    *(Figure(f"of that: {level}", "us") for level in LEVELS),
    Figure("four no-op hooks, awaited one after the other", "us"),
)


def run(options: object, put: Put) -> None:
    command = [sys.executable, "-m", "bench.hooks"] + (["--quick"] if options.quick else [])
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"bench.hooks ended with {done.returncode}: {done.stderr[-600:]}")
    for name, (value, note) in json.loads(done.stdout.splitlines()[-1]).items():
        put(name, value, note)


SECTION = Section("b", "CPU our hooks add per request, in process", FIGURES, run)


class _NoOp:
    async def hook(self, *args: object) -> None:
        return None


def child(quick: bool, profile: bool) -> dict[str, tuple[float, str]]:
    """Attach the plugin in this process and measure."""
    import asyncio

    import uvloop

    with tempfile.TemporaryDirectory() as folder:
        return (
            asyncio.run(_child(Path(folder), quick, profile))
            if profile
            else uvloop.run(_child(Path(folder), quick, profile))
        )


async def _child(folder: Path, quick: bool, profile: bool) -> dict[str, tuple[float, str]]:
    from tests.upstreams import Upstream

    with Upstream("ollama", models=("gemma3:4b", "bge-m3")) as ollama:
        return await _measure(folder, quick, profile, ollama.url)


async def _measure(folder: Path, quick: bool, profile: bool, ollama: str) -> dict[str, tuple[float, str]]:
    import asyncio
    import hashlib
    from time import thread_time_ns

    import yaml
    from litellm import ModelResponse
    from litellm.proxy import proxy_server
    from litellm.proxy._types import UserAPIKeyAuth
    from litellm.router import Router
    from litellm.types.utils import CallTypes

    from bench import registries
    import litellm_registry_hook
    from litellm_registry_hook.edges.registry_file import load_registry

    digest = hashlib.sha256(KEY.encode()).hexdigest()
    usage = folder / "usage.json"
    usage.write_text('{"used_pct": 10}')
    os.environ["LITELLM_REGISTRY_STATE"] = f"sqlite:///{folder}/state.db"
    path = folder / "model-registry.yaml"
    served = registries.served(9, usage, f"sha256:{digest}", ollama)
    # The local models are loaded: the residency gate is on, and lets their requests in by what it remembers.
    served["gpu_residency_policy"]["baseline"]["total_mb"] = 65536
    path.write_text(yaml.safe_dump(served, sort_keys=False))
    registry = load_registry(path)
    entries = []
    for model in registry.models:
        for n, base in enumerate([place.api_base for place in model.places] or [model.litellm.get("api_base")]):
            params = {**model.litellm, **({"api_base": base} if base else {})}
            info = {"id": f"{model.id}@{n}", "managed_by": "litellm-registry-hook", "mode": model.effective_mode}
            entries.append({"model_name": model.id, "litellm_params": params, "model_info": info})
    router = Router(model_list=entries)
    os.environ["LITELLM_REGISTRY"] = str(path)
    handler = litellm_registry_hook.proxy_handler_instance
    proxy_server.llm_router = router
    wrap = proxy_server.app.middleware_stack

    auth = UserAPIKeyAuth(api_key=KEY, key_alias="agent:bench")
    # What LiteLLM sets on a key of its own after it has looked it up.
    auth.via_virtual_key = True
    response = ModelResponse()
    level = 0
    chosen: dict[str, object] = {}
    head = [(b"content-type", b"application/json"), (b"content-length", b"400")]

    def body(model: str) -> dict[str, object]:
        """About what LiteLLM hands to the hooks: the client's body and its own bucket."""
        metadata = {f"user_api_key_{n}": None for n in range(28)}
        metadata |= {"user_api_key_auth": auth, "model_group": model, "headers": {}, "requester_metadata": {}}
        return {
            "model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 64, "temperature": 0.2,
            "user": "u", "stream": False, "metadata": metadata, "proxy_server_request": {}, "litellm_call_id": "1",
            "litellm_logging_obj": None, "secret_fields": {},
        }  # fmt: skip

    async def attempt(*args: object, **kwargs: object) -> object:
        """What LiteLLM does inside one attempt, as far as it calls us."""
        deployment = chosen["entry"]
        if level >= 3:
            deployment = await router.async_get_available_deployment(
                model=kwargs["model"], messages=kwargs["messages"], request_kwargs=kwargs
            )
        params = deployment["litellm_params"]
        call = {**kwargs, **params, "model_info": deployment["model_info"]}
        call["model"] = str(params["model"]).partition("/")[2]
        if level >= 4:
            await handler.async_pre_call_deployment_hook(call, CallTypes.acompletion)
        return response

    async def app(scope: dict[str, object], receive: object, send: object) -> None:
        data = body(chosen["name"])
        if level >= 1:
            data = await handler.async_pre_call_hook(auth, None, data, "acompletion")
        served = await (router.async_function_with_fallbacks if level >= 2 else attempt)(**data)
        assert served is response
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: object) -> None:
        return None

    async def receive() -> object:
        """The client is still there: nothing more comes."""
        return await asyncio.Event().wait()

    wrap.app = app

    async def request(with_wrap: bool, consent: bool) -> None:
        headers = [
            (b"host", b"x"),
            (b"authorization", b"Bearer x"),
            (b"content-type", b"application/json"),
            (b"accept", b"*/*"),
        ]
        if consent:
            headers.append((b"x-registry-allow-metered", b"true"))
        scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "root_path": "", "headers": headers}
        await (wrap if with_wrap else app)(scope, receive, send)

    async def block(with_wrap: bool, consent: bool, at: int, size: int) -> float:
        """Return CPU microseconds a request."""
        nonlocal level
        level = at
        start = thread_time_ns()
        for _ in range(size):
            await request(with_wrap, consent)
        return (thread_time_ns() - start) / size / 1000

    async def settle() -> None:
        """Attach, replace the walk's original, and let background readers come up."""
        chosen.update(name="kimi", entry=router.model_list[0])
        nonlocal level
        level = 0
        await request(True, False)
        router.async_function_with_fallbacks.original = attempt
        local = next(want for want in handler.gpu.runners.wants.values() if want.model.id == "local-small")
        lease = await handler.gpu.residency.enter([local], 20, None)
        assert not isinstance(lease, tuple), lease
        lease.release()
        await asyncio.sleep(0.5)

    await settle()
    blocks, size = (10, 100) if quick else (40, 200)
    found: dict[str, tuple[float, str]] = {}
    by_id = {one["model_name"]: one for one in router.model_list}
    target = {"large": "kimi", "paid": "paid-fallback", "small": "local-small", "kimi": "kimi"}
    if profile:
        import cProfile

        name, consent = next((scene for scene in SCENES.values() if scene[0] in sys.argv), SCENES[MAIN])
        chosen.update(name=name, entry=by_id[target[name]])
        await block(True, consent, 4, 500)
        profiler = cProfile.Profile()
        profiler.enable()
        await block(True, consent, 4, 5000)
        profiler.disable()
        profiler.print_stats("tottime")
        return found
    for scene, (name, consent) in SCENES.items():
        # Without the gates in front, the zero line calls the same deployment by its own model group.
        chosen.update(name=name, entry=by_id[target[name]])
        await block(True, consent, 4, size)
        # (wrapped, level): the zero line, the wrap alone, then one more of ours at a time.
        steps = [(False, 0), (True, 0), (True, 1), (True, 2), (True, 3), (True, 4)]
        times: list[list[float]] = [[] for _ in steps]
        for _ in range(blocks):
            for n, (wrapped, at) in enumerate(steps):
                times[n].append(await block(wrapped, consent, at, size))
        added = [last - first for first, last in zip(times[0], times[-1], strict=True)]
        found[f"all hooks: {scene}"] = (median(added), spread(added, ".1f"))
        if scene == MAIN:
            for n, part in enumerate(LEVELS):
                gain = [after - before for before, after in zip(times[n], times[n + 1], strict=True)]
                found[f"of that: {part}"] = (median(gain), "")
    noop = _NoOp()
    times = [[]]
    for _ in range(blocks):
        start = thread_time_ns()
        for _ in range(size):
            await noop.hook(1, 2)
            await noop.hook(1, 2)
            await noop.hook(1, 2)
            await noop.hook(1, 2)
        times[0].append((thread_time_ns() - start) / size / 1000)
    found[FIGURES[-1].name] = (
        median(times[0]),
        "bare coroutines; LiteLLM's own dispatch of four was measured at 3.5 us",
    )
    return found


if __name__ == "__main__":
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    print(json.dumps(child("--quick" in sys.argv, "--profile" in sys.argv)))
