"""Work done at the same moment, each piece in a thread of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")

SWITCHING = 1e-5
"""Seconds after which Python hands over from one of several threads to the next. Its own 5 ms are longer than most
calls, which would then hardly ever meet."""


def at_once(works: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results, in order. What a piece of work raises is raised here, once all have ended."""
    results: dict[int, Result] = {}
    raised: list[BaseException] = []
    start = threading.Barrier(len(works))

    def do(number: int) -> None:
        try:
            start.wait()
            results[number] = works[number]()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=do, args=(number,), daemon=True) for number in range(len(works))]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCHING if len(works) > 1 else usual)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    if raised:
        raise raised[0]
    return [results[number] for number in range(len(works))]
