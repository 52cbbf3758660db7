"""LiteLLM is imported once, here: its own deprecation warnings are not ours to fail on."""

from __future__ import annotations

import os
import warnings

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import litellm.proxy.proxy_server  # noqa: F401
    from route_table import in_order

    in_order()
