"""From what is there already to a first registry: pure proposals, made of what a machine or a LiteLLM config says."""
