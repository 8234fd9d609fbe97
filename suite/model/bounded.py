"""When the suite's own clock bounds a time, and how a row says that it does not."""

from __future__ import annotations

MARGIN = 0.10
"""How much longer than claimed a call of `LONG` seconds or more may take by the suite's own clock: what asking takes,
and how it varies, is less of a sample of 5 ms."""
UNBELIEVED = 1.5
"""A claim is refused where calls take more than this many times as long; between `MARGIN` and this the row says that
the claim is not bounded. An answer that is remembered every second time makes it 2."""
LONG = 1e-3
"""Seconds: the suite's own clock bounds calls that take this long or longer; see `attnsuite.benchmark.own_clock`."""
NOT_BOUNDED = f"the suite's own clock does not bound this time within {MARGIN:.0%}"
"""How a row says that it could not."""
