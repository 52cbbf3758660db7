"""One registry file says which models there are; a LiteLLM proxy obeys it."""

from litellm_registry_hook._version import __version__

__all__ = ["__version__"]
