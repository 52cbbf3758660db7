"""The releases of LiteLLM and Python that the plugin is checked with: `make matrix`, or `nox -t 1.108.7`.

Each session has a venv of its own with `litellm[proxy]` of one release, as pip resolves it today (constraints.txt is
1.108.7's, and other releases pin other libraries), and runs CONTRACT: what the plugin relies on inside LiteLLM, and a
real proxy that serves a tier and refuses a metered model. A release that is not supported must refuse to start, and
say why. Each session writes its result to docs/compatibility.json, from which the README's table is made.
"""

from __future__ import annotations

import nox
from nox.command import CommandFailed

# The newest patch release of each minor that installs whole. Which of them are supported: core/compatibility.py.
SUPPORTED = ("1.106.12", "1.108.7")
REFUSED = ("1.104.8", "1.105.7")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
HOST = "tests/host/test_start_versions.py::test_this_release_of_litellm_serves_or_says_why_not"
CONTRACT = ("tests/contract", HOST)
# What `proxy` and `test` of pyproject.toml have, as far as CONTRACT needs it.
WITH = ("prisma>=0.15,<0.16", "prometheus_client>=0.20", "opentelemetry-sdk>=1.30")
TOOLS = ("pytest>=8.4", "pytest-asyncio>=1.0", "hypothesis>=6.100", "httpx>=0.28")
TEST_FAILURES = (0, 1)

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False


@nox.session(python=PYTHONS)
@nox.parametrize("litellm", [nox.param(one, id=one, tags=[one]) for one in (*REFUSED, *SUPPORTED)])
def matrix(session: nox.Session, litellm: str) -> None:
    """Check one release of LiteLLM on one Python."""
    junit = f"{session.create_tmp()}/junit.xml"
    record = ["python", "scripts/compatibility.py", "record", litellm, str(session.python)]
    try:
        session.install(f"litellm[proxy]=={litellm}", *WITH, *TOOLS, "-e", ".")
    except CommandFailed:
        session.run(*record, "--not-installable")
        session.error(f"litellm[proxy]=={litellm} does not install on Python {session.python}")
    session.run(
        *("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={junit}"),
        *(session.posargs or (CONTRACT if litellm in SUPPORTED else (HOST,))),
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        success_codes=TEST_FAILURES,
    )
    if not session.posargs:
        session.run(*record, "--junit", junit)
