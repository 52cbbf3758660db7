"""deploy/ read as data, and a cage as tight as the unit and the container make it: a mount namespace."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from tests.host.proxy import ROOT

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
HOST = "host.docker.internal"


@dataclass(frozen=True)
class Layout:
    """How a proxy is started.

    Attributes:
        command: as written, with the paths of the target machine. env: the same.
        config: folder of registry, config and keys. state: the one folder that is writable.

    """

    command: tuple[str, ...]
    env: dict[str, str]
    config: str
    state: str


def instructions() -> list[tuple[str, str]]:
    """Return (instruction, arguments) of the Dockerfile; continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [(name, rest.strip()) for line in lines if line.strip() for name, _, rest in [line.strip().partition(" ")]]


def last(name: str) -> str:
    return [rest for one, rest in instructions() if one == name][-1]


def compose() -> dict[str, object]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["litellm"])


def unit() -> dict[str, list[str]]:
    """Return the [Service] section of the unit: key -> values in order."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in (DEPLOY / "litellm-registry.service").read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def of_compose() -> Layout:
    service = compose()
    env = dict(part.split("=", 1) for part in shlex.split(last("ENV")))
    mounts = {target.split(":")[0]: source for source, target in (one.split(":", 1) for one in service["volumes"])}
    [config] = [target for target, source in mounts.items() if source == "./etc"]
    [state] = [target for target, source in mounts.items() if source == "state"]
    return Layout((*json.loads(last("ENTRYPOINT")), *service["command"]), env, config, state)


def of_unit() -> Layout:
    service = unit()
    env = dict(one.split("=", 1) for one in service["Environment"])
    [keys] = service["EnvironmentFile"]
    [state] = service["StateDirectory"]
    return Layout(tuple(shlex.split(service["ExecStart"][0])), env, str(Path(keys).parent), f"/var/lib/{state}")


# Everything read-only but the state and an own /tmp, and for the container a name for the host: what ProtectSystem=strict,
# PrivateTmp, read_only and extra_hosts do.
CAGE = """
set -e
mount --make-rprivate /
mount --bind "$STATE" "$STATE"
# The Python of the tests may lie in root's home, where the service's user could not go.
case $PYTHON in /root/*)
  mount -t tmpfs -o mode=755 tmpfs /mnt
  mkdir /mnt/python && mount --bind "$PYTHON" /mnt/python
  mount -t tmpfs -o mode=755 tmpfs /root
  mkdir -p "$PYTHON" && mount --bind /mnt/python "$PYTHON" ;;
esac
chown -R "$OWNER" "$STATE"
if [ -n "$HOSTS" ]; then mount --bind "$HOSTS" /etc/hosts; fi
cut -d' ' -f2 /proc/self/mounts | sort -u | while read -r at; do
  case $at in /proc*|/sys*|/dev*|"$STATE") ;; *) mount -o remount,bind,ro "$at" 2>/dev/null || true ;; esac
done
mount -t tmpfs -o mode=1777 tmpfs /tmp
if touch "$CONFIG/new" 2>/dev/null || touch "$ROOT/new" 2>/dev/null; then echo "the cage is open" >&2; exit 77; fi
touch "$STATE/new" /tmp/new && rm "$STATE/new"
cd "$STATE"
user=${OWNER%:*} group=${OWNER#*:}
exec setpriv --reuid="$user" --regid="$group" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all -- env -i "$@"
"""


def caged(config: Path, state: Path, hosts: Path | None, words: list[str]) -> list[str]:
    """Return the command that runs words in the cage; `words` begin with NAME=VALUE of the whole environment."""
    own = [f"CONFIG={config}", f"STATE={state}", f"HOSTS={hosts or ''}", f"ROOT={ROOT}"]
    own += [f"PYTHON={sys.base_prefix}", f"OWNER={last('USER')}"]
    return ["unshare", "--mount", "env", *own, "sh", "-c", CAGE, "sh", *words]


@cache
def why_no_cage() -> str:
    """Return why there can be no cage here; empty where there can."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        return "unshare and setpriv (util-linux) are not installed"
    import tempfile

    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        config, state = Path(folder) / "config", Path(folder) / "state"
        config.mkdir()
        state.mkdir()
        done = subprocess.run(
            caged(config, state, None, [str(BIN / "python"), "-c", ""]), capture_output=True, text=True
        )
    return f"no mount namespace for this user (root may): {done.stderr.strip()}" if done.returncode else ""
