"""May the registry be enforced on this LiteLLM? Decided from its version and from what its internals lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["supported", "untested", "gate_open", "compromised"]

# Minor releases of LiteLLM that the whole contract was run with: docs/compatibility.json, noxfile.py.
KNOWN = ((1, 106), (1, 108))
# Releases of LiteLLM that carried somebody else's code.
COMPROMISED = frozenset({"1.82.7", "1.82.8", "1.107.0"})
PAGE = "docs/compatibility.md"


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that LiteLLM does not have as we know it.

    Attributes:
        part: its name in LiteLLM, or what is not called from where. without: what happens without it.
        gate: a request could get past a gate, or no request past any.

    """

    part: str
    without: str
    gate: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the proxy may start.

    Attributes:
        kind: what was found. starts: whether the proxy may start. text: what to log, or to end with; empty where
            there is nothing to say.

    """

    kind: Kind
    starts: bool
    text: str = ""


def is_known(version: str) -> bool:
    """Say whether the contract was run with a release of this minor: `1.108.9` is known where 1.108.7 was checked."""
    return version not in COMPROMISED and _minor(version) in KNOWN


def known_releases() -> str:
    """Name the known minors for a sentence: `1.106.x and 1.108.x`."""
    names = [f"{major}.{minor}.x" for major, minor in KNOWN]
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])


def judge(version: str, lacks: Sequence[Lack] = ()) -> Verdict:
    """Decide about a LiteLLM.

    Args:
        version: what LiteLLM says of itself.
        lacks: what its internals lack.

    A compromised release comes first, then an open gate; a release that nobody has checked starts where everything is
    there, with one sentence.
    """
    if version in COMPROMISED:
        return Verdict(
            "compromised",
            starts=False,
            text=f"LiteLLM {version} was published by somebody else: it sends secrets away. The proxy does not start; "
            f"install another release ({known_releases()} are known to work) and change every key that it had",
        )
    gates = [lack for lack in lacks if lack.gate]
    if gates:
        what = "; ".join(f"{lack.part} is missing ({lack.without})" for lack in gates)
        return Verdict(
            "gate_open",
            starts=False,
            text=f"the registry cannot be enforced on LiteLLM {version}, so the proxy does not start: {what}. Install "
            f"a release that is known to work ({known_releases()}); see {PAGE}",
        )
    said = []
    if not is_known(version):
        said.append(
            f"nobody has checked this plugin with LiteLLM {version}; what its gates stand on is there, so it serves. "
            f"Known to work: {known_releases()}. To check it yourself: {PAGE}"
        )
    said += [f"LiteLLM {version} lacks {lack.part}: {lack.without}" for lack in lacks]
    return Verdict("supported" if is_known(version) else "untested", starts=True, text="; ".join(said))


def before_start(version: str) -> str:
    """Say why a release cannot do, before LiteLLM is imported; empty where it may."""
    if version in COMPROMISED:
        return judge(version).text
    minor = _minor(version)
    if minor and minor < KNOWN[0]:
        return (
            f"LiteLLM {version} lacks what the registry's gates stand on, and its proxy would not start; install one "
            f"that is known to work ({known_releases()}); see {PAGE}"
        )
    return ""


def _minor(version: str) -> tuple[int, ...]:
    """Return (1, 108) of `1.108.7`; nothing of a version that is none."""
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()
