"""For all tests."""

from __future__ import annotations

import signal

# In the background of a shell SIGINT is ignored, and children inherit that: then no Ctrl-C of a test would end them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
