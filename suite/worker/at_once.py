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


def at_once(works: Sequence[Callable[[], Result]], times: int = 1) -> list[list[Result]]:
    """The results of each piece of work, done so many times; what it raises is raised here, once all have ended.

    Threads do not start together, however they are told to. So each goes on until all have done their work.
    """
    results: list[list[Result]] = [[] for _ in works]
    raised: list[BaseException] = []

    def do(number: int) -> None:
        try:
            while not raised and (len(results[number]) < times or any(len(each) < times for each in results)):
                results[number].append(works[number]())
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
    return results
