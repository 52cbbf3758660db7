"""The LiteLLM side: its calls and errors translated; no policy. Only `host` imports litellm."""
