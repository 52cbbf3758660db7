"""Look at every address at once, find out what each really is, and say what gave nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from litellm_registry_hook.core.gpu.facts import Nvml
from litellm_registry_hook.core.gpu.place import ServerKey, server_key
from litellm_registry_hook.core.start.found import Found, OllamaSeen, OpenAiSeen, TeiSeen
from litellm_registry_hook.core.start.own import is_billing, is_own
from litellm_registry_hook.core.start.proposal import Left
from litellm_registry_hook.edges.gpu.nvml import Driver
from litellm_registry_hook.edges.gpu.parallel import AtOnce
from litellm_registry_hook.edges.start.ask import Asking, NotThatError, SilentError
from litellm_registry_hook.edges.start.ollama import read_ollama
from litellm_registry_hook.edges.start.openai import read_openai
from litellm_registry_hook.edges.start.render import comment
from litellm_registry_hook.edges.start.tei import read_tei

Kind = Literal["ollama", "tei", "openai"]
Seen = OllamaSeen | TeiSeen | OpenAiSeen
OLLAMA_PORT: Final = 11434
_HERE: Final = "127.0.0.1"
USUAL: Final[tuple[tuple[Kind, str], ...]] = (
    ("tei", "http://127.0.0.1:8080"),
    ("openai", "http://127.0.0.1:8000"),
    ("openai", "http://127.0.0.1:1234"),
)
# All answers of one server together, in answers' times: 200 calls of /api/show go into it easily.
WHOLE: Final = 6.0
_NVML_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Target:
    """One address to look at.

    Attributes:
        kind: what it is thought to be. base: without `/v1` and trailing slash.
        named: whether a person named it; the usual ones may be absent without a word.
        key_env: name of the environment variable that holds its key.

    """

    kind: Kind
    base: str
    named: bool = True
    key_env: str = ""


class Watcher(Protocol):
    """Who is told how far it is."""

    def say(self, text: str) -> None:
        """Show what is being looked at."""

    def step(self) -> None:
        """One more server is done."""


def address(text: str, *, port: int | None = None) -> str:
    """Return an address without `/v1` and trailing slash; `http://` where it has no scheme.

    Args:
        text: as a person wrote it. port: taken where neither a scheme nor a port is written.

    Raises:
        ValueError: not an address, or one with a password in it; the text says how to mend it.

    """
    whole = text.strip()
    bare = "://" not in whole
    whole = f"http://{whole}" if bare else whole
    try:
        parts = urlsplit(whole)
        host, given = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is no address: {error}") from error
    if (
        parts.scheme not in {"http", "https"}
        or not host
        or any(char.isspace() or not char.isprintable() for char in whole)
    ):
        raise ValueError(f"{text!r} is no address: write http://host:port")
    if parts.username or parts.password:
        raise ValueError("an address with a password would stand in the registry: put the server behind a key")
    if parts.query or parts.fragment:
        raise ValueError(f"{text!r} has a query: write http://host:port")
    place = parts.netloc if given or not (bare and port) else f"{parts.netloc}:{port}"
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{place}{path}"


def usual(ollama_host: str | None) -> tuple[Target, ...]:
    """Return the addresses that are looked at where none is named: loopback, and Ollama's own variable.

    Args:
        ollama_host: $OLLAMA_HOST. It is where a server listens as well, so every-address is this machine.

    """
    base = f"http://{_HERE}:{OLLAMA_PORT}"
    with contextlib.suppress(ValueError):
        base = address(_spelled(ollama_host or ""), port=OLLAMA_PORT)
    return (Target("ollama", base, named=False), *(Target(kind, one, named=False) for kind, one in USUAL))


def _spelled(ollama_host: str) -> str:
    """Return $OLLAMA_HOST as an address that can be called, read as Ollama reads it (envconfig/config.go, Host).

    Quotes around it do not count; without a host, or with every-address, it is this machine.
    """
    scheme, sign, place = ollama_host.strip().strip("\"'").rpartition("://")
    place, slash, path = place.partition("/")
    with contextlib.suppress(ValueError):
        place = f"[{IPv6Address(place.strip('[]'))}]"
    bracket = place.rfind("]") + 1
    host, colon, port = place[bracket:].partition(":")
    host = place[:bracket] + host
    if host in {"", "0.0.0.0", "[::]"}:  # noqa: S104  told apart, not listened on
        host = _HERE
    return f"{scheme}{sign}{host}{colon if port else ''}{port}{slash}{path}"


def look(targets: Sequence[Target], watcher: Watcher, *, answer_s: float, gpus: bool) -> Found:
    """Look at all of them side by side.

    Args:
        targets: addresses; one server named twice is asked once. watcher: told how far it is.
        answer_s: seconds one answer may take; all of it ends after six times that.
        gpus: whether to ask NVML.

    """
    once: dict[ServerKey, Target] = {}
    for target in targets:
        once.setdefault(server_key(target.base), target)
    jobs: dict[str, Callable[[], Seen | Left | Nvml | None]] = {
        f"server {number}": _Job(target, watcher, answer_s) for number, target in enumerate(once.values())
    }
    if gpus:
        jobs["nvml"] = lambda: Driver().read(0.0)
    results = AtOnce[str]().run(jobs, max(answer_s * (WHOLE + 1.5), _NVML_S if gpus else 0.0))
    seen: list[Seen] = []
    left: list[Left] = []
    for number, target in enumerate(once.values()):
        late = Left(target.base, f"its answers had not ended after {answer_s * WHOLE:g} s", "--timeout SECONDS")
        result = results.get(f"server {number}", late)
        if isinstance(result, Left):
            left.append(result)
        elif result is not None and not isinstance(result, Nvml):
            seen.append(result)
    nvml = results.get("nvml", Nvml(reason="the driver did not answer in time") if gpus else Nvml(reason="--no-gpu"))
    return Found(
        ollamas=tuple(one for one in seen if isinstance(one, OllamaSeen)),
        teis=tuple(one for one in seen if isinstance(one, TeiSeen)),
        openais=tuple(one for one in seen if isinstance(one, OpenAiSeen)),
        nvml=nvml if isinstance(nvml, Nvml) else Nvml(),
        gpus_asked=gpus,
        left=tuple(left),
        tried=tuple(target.base for target in once.values()),
    )


@dataclass(frozen=True)
class _Job:
    """Find out what one address is.

    Attributes:
        target: where. watcher: told of it. answer_s: seconds one answer may take.

    """

    target: Target
    watcher: Watcher
    answer_s: float

    def __call__(self) -> Seen | Left | None:
        target = self.target
        key = os.environ.get(target.key_env, "").strip() if target.key_env else ""
        if not (key.isascii() and key.isprintable()):
            # What httpx says of such a header quotes it.
            self.watcher.step()
            why = f"the key in {target.key_env} has characters that no header can carry"
            return Left(target.base, why, f"export {target.key_env} with the key alone")
        headers = {"Authorization": f"Bearer {key}"} if key else None
        asking = Asking(target.base, self.answer_s, self.answer_s * WHOLE, headers)
        self.watcher.say(target.base)
        try:
            return self._recognise(asking)
        finally:
            asking.close()
            self.watcher.step()

    def _recognise(self, asking: Asking) -> Seen | Left | None:
        target = self.target
        differs = []
        for kind in self._kinds():
            try:
                if kind == "ollama":
                    return read_ollama(asking, lambda text: self.watcher.say(comment(text)))
                if kind == "tei":
                    return read_tei(asking)
                return read_openai(asking, target.key_env)
            except NotThatError as error:  # noqa: PERF203  three at most
                differs.append(str(error))
            except SilentError as error:
                if error.refused and not target.named:
                    return None
                fix = f"--key-env {target.base}=NAME" if "wants a key" in str(error) else "start it, or leave it out"
                return Left(target.base, str(error), fix)
        return Left(target.base, f"neither Ollama, TEI nor OpenAI-compatible: {'; '.join(differs)}", "")

    def _kinds(self) -> tuple[Kind, ...]:
        """Return what to try: of somebody else's server no more than what it was named as."""
        if self.target.kind == "openai" and (is_billing(self.target.base) or not is_own(self.target.base)):
            return ("openai",)
        # Ollama answers /v1/models as well: it comes before.
        first: tuple[Kind, ...] = (self.target.kind,) if self.target.kind != "openai" else ()
        return tuple(dict.fromkeys((*first, "ollama", "tei", "openai")))
