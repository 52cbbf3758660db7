"""What the gate of batches relies on in LiteLLM's files and batches; line numbers are those of 1.108.7."""

from __future__ import annotations

import base64
import gc
import io
import json
import warnings

import litellm
import openai
import pytest
import pytest_asyncio
from kit import Funnel, Hooked, callback, deployment, router_on
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.utils import CallTypes

from litellm_registry_hook.adapter import batches, host
from litellm_registry_hook.core.batch import PROVIDERS
from tests.upstreams import Upstream

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.asyncio(loop_scope="module")]
LINE = b'{"custom_id": "1", "body": {"model": "m"}}\n'
WINDOW = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def clients():
    """LiteLLM's cached clients are closed at the end; what it forgot is collected without a warning."""
    yield
    await litellm.close_litellm_async_clients()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture
def up():
    with Upstream("one") as one:
        yield one


def account(up, **more):
    return {"custom_llm_provider": "openai", "api_base": up.openai_base, "api_key": "dummy", **more}


async def uploaded(up, content=LINE, **more):
    file = ("a.jsonl", io.BytesIO(content), "application/jsonl")
    return await litellm.acreate_file(file=file, purpose="batch", **account(up, **more))


def kind(kwargs, call_type):
    return getattr(call_type, "value", None) or kwargs["litellm_logging_obj"].call_type


async def test_the_deployment_hook_sees_the_file_and_its_account(up):
    """An upload comes by the hook with the file as a tuple, the purpose, and the account (utils.py:2082)."""

    def look(kwargs, call_type):
        name, file, content_type = kwargs["file"]
        seen = kind(kwargs, call_type), name, file.read(), content_type, kwargs["purpose"], kwargs["api_base"]
        file.seek(0)
        return seen

    with callback(Hooked(look)) as hook:
        await uploaded(up)

    assert hook.seen == [(batches.UPLOAD, "a.jsonl", LINE, "application/jsonl", "batch", up.openai_base)]


async def test_the_file_that_the_hook_gives_back_is_what_leaves(up):
    """The hook's answer replaces the call: the file that arrives is ours."""

    class Rewrites(CustomLogger):
        async def async_pre_call_deployment_hook(self, kwargs, call_type):
            return {**kwargs, "file": ("b.jsonl", io.BytesIO(b"other"), "application/jsonl")}

    with callback(Rewrites()):
        file = await uploaded(up)

    assert up.batch_api.files == {file.id: b"other"}


async def test_the_success_hook_gets_the_providers_own_id(up):
    """After an upload the deployment's success hook sees the id that a batch will name (utils.py:2231)."""

    class Sees(CustomLogger):
        ids = []

        async def async_post_call_success_deployment_hook(self, request_data, response, call_type):
            self.ids.append((call_type, response.id))

    with callback(Sees()) as hook:
        file = await uploaded(up)

    assert hook.ids == [(CallTypes.acreate_file, file.id)]
    assert list(up.batch_api.files) == [file.id]


async def test_extra_body_replaces_the_file_of_a_batch(up):
    """The provider's SDK merges extra_body over the request: why the gate drops it."""
    file = await uploaded(up)
    await litellm.acreate_batch(
        input_file_id=file.id, extra_body={"input_file_id": "file-other"}, **WINDOW, **account(up)
    )

    assert up.generating_calls[-1].json["input_file_id"] == "file-other"


async def test_every_call_of_files_and_batches_has_a_kind_that_is_listed(up):
    """The hook tells uploads and batches, which are gated, from what follows, which is not."""
    with callback(Hooked(kind)) as hook:
        file = await uploaded(up)
        batch = await litellm.acreate_batch(input_file_id=file.id, **WINDOW, **account(up))
        await litellm.aretrieve_batch(batch_id=batch.id, **account(up))
        await litellm.alist_batches(**account(up))
        await litellm.acancel_batch(batch_id=batch.id, **account(up))
        await litellm.afile_retrieve(file_id=file.id, **account(up))
        await litellm.afile_content(file_id=file.id, **account(up))
        await litellm.afile_list(**account(up))
        await litellm.afile_delete(file_id=file.id, **account(up))

    assert hook.seen[:2] == [batches.UPLOAD, batches.CREATE]
    # Cancelling does not come by the hook at all (batches/main.py:893).
    assert set(hook.seen[2:]) == batches.FOLLOW_UPS - {"alist_fine_tuning_jobs", "acancel_batch"}
    assert {one.value for one in CallTypes} >= batches.GATED


async def test_a_failed_batch_is_repeated_unless_told_not_to(up):
    """max_retries=0 reaches the provider's SDK on the creation of a batch, which repeats it otherwise."""
    counted = {}
    for retries in ({}, {"max_retries": 0}):
        up.reset()
        up.fail(500)
        with pytest.raises(openai.InternalServerError):
            await litellm.acreate_batch(input_file_id="f", **WINDOW, **account(up, api_key=str(retries)), **retries)
        counted[len(retries)] = len(up.generating_calls)

    assert counted == {0: 3, 1: 1}


async def test_the_router_spreads_files_through_the_funnel(up):
    """Router.acreate_file and acreate_batch go through async_function_with_fallbacks, where the walk refuses them."""
    router = router_on(deployment("m@0", up.openai_base))
    funnel = Funnel(router)
    file = ("a.jsonl", io.BytesIO(LINE), "application/jsonl")
    await router.acreate_file(model="m", file=file, purpose="batch")
    await router.acreate_batch(model="m", input_file_id="f", **WINDOW)

    assert funnel.models == ["m", "m"]


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
async def test_the_account_of_a_deployment_is_that_of_its_calls(provider):
    """The look-up of LiteLLM's file routes gives address, key and provider of a deployment (router.py:11477)."""
    base, key = "http://127.0.0.1:1/v1/", "dummy"
    router = router_on(deployment("m@0", base, model=f"{provider}/m-up", api_key=key, api_version="x"))
    call = {"custom_llm_provider": provider, "api_base": base.rstrip("/"), "api_key": key}

    assert host.account_of_deployment(router, "m@0") == host.account_of(call)
    assert host.account_of_deployment(router, "m@0") != host.account_of({**call, "api_key": "other"})
    assert host.account_of_deployment(router, "gone@0") is None


async def test_an_account_without_a_key_or_address_is_the_environments(monkeypatch):
    """What a call leaves out is resolved as LiteLLM does: from its globals, the environment, OpenAI's own address."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "dummy")
    whole = {"custom_llm_provider": "openai", "api_base": "https://api.openai.com/v1", "api_key": "dummy"}

    assert host.account_of({}) == host.account_of(whole)


async def test_a_managed_file_is_known_by_its_id():
    """LiteLLM's managed ids carry a prefix in base64; a provider's and a model's id do not."""
    managed = base64.urlsafe_b64encode(b"litellm_proxy:application/json;unified_id,x;target_model_names,m").decode()
    carried = "file-" + base64.urlsafe_b64encode(b"litellm:file-x;model,m").decode().rstrip("=")

    assert [host.is_managed_file(one) for one in (managed, carried, "file-x", "")] == [True, False, False, False]


async def test_balancing_batches_is_a_global(monkeypatch):
    """enable_loadbalancing_on_batch_endpoints is read off the module, as LiteLLM's routes do."""
    assert hasattr(litellm, "enable_loadbalancing_on_batch_endpoints")
    assert host.balances_batches() is False
    monkeypatch.setattr(litellm, "enable_loadbalancing_on_batch_endpoints", True)
    assert host.balances_batches() is True


async def test_litellm_reads_the_model_of_no_line(up):
    """An upload to a model's account leaves as it came: the lines name the provider's model, or no model it knows."""
    content = json.dumps({"custom_id": "1", "body": {"model": "m"}}).encode()
    file = await uploaded(up, content, model="openai/m-up")

    assert up.batch_api.files[file.id] == content
