"""Answers to why, beside the proxies: what is known now, gathered without loading, booking or asking a model."""
