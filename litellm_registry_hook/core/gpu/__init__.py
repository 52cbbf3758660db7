"""GPU residency: what is known of the machines (`facts.py`) and what may be loaded on them (`decide.py`).

All memory in MB (= MiB), all moments in seconds since the epoch.
"""
