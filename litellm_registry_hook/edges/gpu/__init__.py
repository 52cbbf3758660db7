"""What is read of the machines (NVML, Ollama, other model servers), and the loading and unloading of models."""
