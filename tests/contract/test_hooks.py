"""What the gates rely on in LiteLLM's proxy hooks and in its package; line numbers are those of 1.108.7."""

from __future__ import annotations

import subprocess
import sys

import litellm
import pytest
from kit import callback
from litellm.caching.caching import DualCache
from litellm.integrations.custom_guardrail import is_guardrail_intervention
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.utils import ProxyLogging
from litellm.types.utils import CallTypes

from litellm_registry_hook.adapter.handler import ENVELOPES, FOLLOW_UPS, RegistryHandler
from litellm_registry_hook.adapter.host import HTTPException
from litellm_registry_hook.adapter.scope import RefusedError
from litellm_registry_hook.core.refusal import refuse

pytestmark = pytest.mark.filterwarnings("ignore")


class Defines(CustomLogger):
    """A callback that has the hook itself."""

    def __init__(self):
        super().__init__()
        self.calls = []

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        self.calls.append(call_type)
        return {**data, "model": "changed"}


class Inherits(Defines):
    """A callback that only inherits it."""


async def pre_called(hook, **data):
    proxy = ProxyLogging(user_api_key_cache=DualCache())
    with callback(hook):
        return await proxy.pre_call_hook(
            user_api_key_dict=UserAPIKeyAuth(api_key="sk-x"), data={"model": "m", **data}, call_type="acompletion"
        )


async def test_the_pre_call_hook_is_called_where_the_class_defines_it():
    """Its answer replaces the body (proxy/utils.py:3072)."""
    hook = Defines()

    data = await pre_called(hook)

    assert (hook.calls, data["model"]) == (["acompletion"], "changed")


async def test_an_inherited_pre_call_hook_is_skipped():
    """`"async_pre_call_hook" in vars(cls)`: a subclass without its own gates nothing (proxy/utils.py:3072)."""
    hook = Inherits()

    data = await pre_called(hook)

    assert (hook.calls, data["model"]) == ([], "m")


def test_our_callback_defines_its_hooks_itself():
    """RegistryHandler is a CustomLogger with both hooks in its own class body."""
    assert issubclass(RegistryHandler, CustomLogger)
    assert {"async_pre_call_hook", "async_pre_call_deployment_hook"} <= vars(RegistryHandler).keys()


async def test_what_the_pre_call_hook_raises_comes_out():
    """An exception of the hook is not swallowed and keeps its status and headers."""

    class Refuses(CustomLogger):
        async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
            raise RefusedError(refuse("unlisted_model", "no"))

    with pytest.raises(RefusedError) as caught:
        await pre_called(Refuses())

    assert (caught.value.status_code, caught.value.headers) == (403, {"x-should-retry": "false"})


@pytest.mark.parametrize(
    ("error", "intervention"),
    [
        (HTTPException(400), True),
        (HTTPException(403), True),
        (HTTPException(422), True),
        (HTTPException(429), False),
        (HTTPException(503), False),
        (RefusedError(refuse("unlisted_model", "no")), True),
        (RefusedError(refuse("gpu_no_headroom", "no")), False),
        (ValueError("x"), False),
    ],
)
def test_which_refusals_count_as_a_guardrails(error, intervention):
    """400, 403 and 422 end the call as a guardrail's block does; 429 and 503 do not (custom_guardrail.py:78)."""
    assert is_guardrail_intervention(error) is intervention


def test_a_refusal_stops_retries_by_itself():
    """The router reads num_retries off the exception (router.py:8427)."""
    assert RefusedError(refuse("gpu_no_headroom", "no")).num_retries == 0


def test_the_call_types_that_pass_the_deployment_hook_are_litellms():
    """Follow-ups and envelopes are CallTypes, but for SDK functions, whose name the logging object has (utils.py:1526)."""
    unlisted = (FOLLOW_UPS | ENVELOPES) - {kind.value for kind in CallTypes}

    assert "avideo_status" in unlisted
    assert [name for name in unlisted if not callable(getattr(litellm, name, None))] == []


def test_the_callbacks_are_a_list_that_the_deployment_hook_reads():
    """litellm.callbacks is what async_pre_call_deployment_hook goes through (utils.py:1543)."""
    assert isinstance(litellm.callbacks, list)


@pytest.mark.parametrize(
    "code",
    [
        "import litellm_registry_hook",
        "from litellm_registry_hook import load_registry, get_model, resolve, to_probe_config, preload_check",
        "from litellm_registry_hook import RegistryError, to_probe_configs, __version__",
        "import litellm_registry_hook.cli.main",
    ],
)
def test_importing_the_package_imports_no_litellm(code):
    """The library and the command line work without LiteLLM, which takes seconds to import."""
    script = f"{code}\nimport sys\nprint([name for name in sys.modules if name.partition('.')[0] == 'litellm'])"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert (done.stdout, done.stderr) == ("[]\n", "")
