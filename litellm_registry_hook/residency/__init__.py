"""The act of loading: who may be loaded is decided in core/gpu, here it is done.

One thread a worker does everything that blocks (`engine.py`); a request for a resident model never waits for it
(`view.py`). `desk.py` is a state machine on an injected clock, so that a test can drive it through virtual time.
"""
