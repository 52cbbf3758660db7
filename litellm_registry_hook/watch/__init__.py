"""Keeps what is known of the models' availability up to date, beside the requests; the workers of a fleet share it."""
