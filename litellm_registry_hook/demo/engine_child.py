"""The engine's own process: llama.cpp's HTTP server (xllamacpp) on a free loopback port.

Prints its address as the first line of stdout and serves until its stdin closes or it is killed.
"""

from __future__ import annotations

import importlib
import signal
import sys

from litellm_registry_hook.demo.tether import die_with_parent

ERROR = "error: "
N_CTX = 2048  # tokens, shared by the slots
N_PARALLEL = 2


def main(model_path: str, alias: str) -> None:
    """Serve one GGUF file under one name."""
    die_with_parent(signal.SIGKILL)
    try:
        # By name: it is optional, and has no types.
        xllamacpp = importlib.import_module("xllamacpp")
    except ImportError as error:
        print(f"{ERROR}{error}", flush=True)  # noqa: T201
        sys.exit(1)
    params = xllamacpp.CommonParams()
    params.model.path = model_path
    params.model_alias = {alias}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = N_CTX
    params.n_parallel = N_PARALLEL
    # One thread: with a second busy core two threads fall to a tenth of their speed.
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
