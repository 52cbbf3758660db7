"""Reads how much of a quota is used and whether servers are up; blocking, bounded, and never raising."""
