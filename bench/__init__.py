"""Measures what the specification promises about speed. Prints figures, asserts nothing. See docs/bench.md."""
