"""One implementation that takes part: its two processes, one for time and one for memory, idle ones suspended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own
import torch

from suite.benchmark.request import cores
from suite.measure import MOST_CALLS, serving
from suite.measure.memory import ENVIRONMENT, METERS
from suite.records import MEASURED_STATUSES
from suite.registry import Broken, Declaration, Loaded, Missing
from suite.worker import Died, Hung, Ready, Worker, expect

START_LIMIT = 120.0
"""Seconds for an import: twelve processes may import at once."""
TIMED = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
"""A process that is timed runs with these. By itself glibc begins to reuse freed blocks of up to 32 MiB sooner or
later, as the heap happens to lie: two processes of the same code then differ by up to 2 times, all their lives."""

Answer = dict[str, Any]


@dataclass
class Member:
    """An implementation and how to ask it. `request` answers a verb of `suite.measure.serving`, failures included."""

    declaration: Declaration
    device: str
    threads: int
    memory_limit: int
    time_limit: float
    function: Callable[..., Any] | None = None
    """What is timed in this very process, because no other could import it."""
    place: int = 0
    """Which one of several it is: the next one's processes start on the next core."""
    _timed: Worker | None = field(default=None, repr=False)
    _weighed: Worker | None = field(default=None, repr=False)
    _warmed: set[tuple[str, str]] = field(default_factory=set, repr=False)
    """The contracts and dtypes of which it has made a small call, or started threads by one."""
    _settled: dict[str, int] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return self.declaration.full_name

    def start(self) -> None:
        """Begin to import, in the background."""
        if self.function is None:
            self._timed = self._timed or self._worker(TIMED)
            self._timed.start()

    def ready(self) -> Answer:
        """Wait until it is imported. The answer has a status where it cannot be."""
        if self._timed is None:
            return {}
        state = self._timed.ready()
        if not isinstance(state, Ready):
            return lost(state)
        self.declaration = state.declaration
        self._timed.suspend()
        return {}

    def request(self, verb: str, arguments: Mapping[str, Any], time_limit: float | None = None) -> Answer:
        """Ask the process that is timed; it is awake meanwhile and no longer."""
        if self.function is not None:
            return checked(verb, self._here(self.function, verb, arguments))
        assert self._timed is not None
        return self._asked(self._timed, verb, arguments, time_limit)

    def weigh(self, arguments: Mapping[str, Any]) -> Answer:
        """Ask a second process for the memory of one call. One that had to make the call itself is not asked again."""
        if self.function is not None:
            return {"memory": {}, "kernel": ""}
        answer = self._warm(arguments)
        if not answer:
            self._weighed = self._weighed or self._worker(ENVIRONMENT)
            answer = self._asked(self._weighed, "memory", arguments, None)
        if "status" in answer or answer.get("spent"):
            self._close_weighed()
        return answer

    def _warm(self, arguments: Mapping[str, Any]) -> Answer:
        """Have the second process make a small call, once, unless it starts threads by that; nothing, or a status."""
        if self._weighed is None:
            self._weighed, self._warmed = self._worker(ENVIRONMENT), set()
        key = arguments["contract"], arguments["dtype"]
        if key in self._warmed:
            return {}
        self._warmed.add(key)
        answer = self._asked(self._weighed, "warm", arguments, None)
        if "status" in answer:
            return answer
        if not answer["alone"]:
            self._close_weighed()
        return {}

    def _close_weighed(self) -> None:
        if self._weighed is not None:
            self._weighed.close()
        self._weighed = None

    def restart(self) -> None:
        """End the process that is timed, and all that it has started; the next request starts another."""
        if self._timed is not None:
            self._timed.close()

    def used(self) -> float:
        """Seconds of CPU time that its process and those below it have used; 0 where it has none of its own."""
        with suppress(psutil.Error):
            if self._timed is not None and self._timed.pid is not None:
                process = psutil.Process(self._timed.pid)
                times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
                return sum(each.user + each.system + each.children_user + each.children_system for each in times)
        return 0.0

    def close(self) -> None:
        self.restart()
        self._timed = None
        self._close_weighed()

    def _worker(self, environment: Mapping[str, str]) -> Worker:
        return Worker(
            self.declaration,
            self.device,
            self.time_limit,
            START_LIMIT,
            environment={**environment, **_with_threads(self.threads)},
            cores=_cores(self.threads, self.place),
            measures=True,
        )

    def _here(self, function: Callable[..., Any], verb: str, arguments: Mapping[str, Any]) -> Answer:
        """Ask this very process, which has as many threads meanwhile as another would."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads or before)
        try:
            verbs: Mapping[str, Callable[..., Answer]] = vars(serving)
            return verbs[verb](function, self.device, self._with(arguments))
        finally:
            torch.set_num_threads(before)

    def _asked(self, worker: Worker, verb: str, arguments: Mapping[str, Any], time_limit: float | None) -> Answer:
        worker.resume()
        try:
            worker.ready()
            settled = f"{id(worker)}"
            if self._settled.get(settled) != worker.pid:  # a fresh process, or one that followed a death
                self._settled[settled] = worker.pid or 0
                if worker is self._timed:  # imports are shared out, what is timed shares one place
                    worker.move(_cores(self.threads, 0))
                given = worker.request("settle", self._with({}))
                if not isinstance(given, dict):
                    return lost(given)
            given = worker.request(verb, self._with(arguments), time_limit)
            return checked(verb, given) if isinstance(given, dict) else lost(given)
        finally:
            worker.suspend()

    def _with(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {**arguments, "threads": self.threads, "memory_limit": 0 if self.function else self.memory_limit}


def member(
    implementation: Declaration | Loaded, device: str, threads: int, memory_limit: int, time_limit: float, place: int
) -> Member:
    """The implementation as a member: in processes of its own where they can import it, else in this one."""
    if isinstance(implementation, Declaration):
        return Member(implementation, device, threads, memory_limit, time_limit, place=place)
    of = implementation.declaration
    here = None if of.module or of.file else implementation.function
    return Member(of, device, threads, memory_limit, time_limit, here, place)


def expect_members(threads: int) -> None:
    """Begin to import what is held against the contract, what is timed and what is weighed will be forked from."""
    expect({})
    for place, environment in enumerate((TIMED, ENVIRONMENT)):
        expect({**environment, **_with_threads(threads)}, _cores(threads, place))


def _cores(threads: int, place: int) -> list[int]:
    """As many neighbouring cores as there are threads, from the last ones on; none where that is not said."""
    every = cores()
    first = (place + 1) * threads
    return [every[(each - first) % len(every)] for each in range(threads)]


def _with_threads(threads: int) -> dict[str, str]:
    """What tells libraries how many threads to start; nothing where that is not said."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(names, str(threads)) if threads else {}


def checked(verb: str, answer: Answer) -> Answer:
    """The answer, or that it is none: a process that runs somebody's code may say anything."""
    if "status" in answer:
        status, detail = answer["status"], answer.get("detail")
        if status in MEASURED_STATUSES and status != "measured" and isinstance(detail, str):
            return {"status": status, "detail": detail}
        return {"status": "refused", "detail": f"answered garbage: status {status!r:.80}"}
    for name, holds in _ANSWERS.get(verb, {}).items():
        if name not in answer or not holds(answer[name]):
            return {"status": "refused", "detail": f"answered garbage: {name} {answer.get(name)!r:.80}"}
    return answer


SHORTEST, LONGEST = 1e-9, 1e6
"""Seconds that anything may be said to take."""
MOST_BYTES = 2.0**60


def _is_time(value: object) -> bool:
    return isinstance(value, float) and SHORTEST <= value <= LONGEST


def _is_time_or_none(value: object) -> bool:
    return value == 0 or _is_time(value)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 < value <= MOST_CALLS


def _are_numbers(value: object) -> bool:
    return isinstance(value, dict) and all(each is None or _is_number(each) for each in value.values())


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= MOST_BYTES  # type: ignore[operator]


def _is_memory(value: object) -> bool:
    return isinstance(value, dict) and set(value) == METERS and _are_numbers(value)


def _are_tensors(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, torch.Tensor) for each in value.values())


_ANSWERS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "prepare": {
        "making": _are_numbers,
        "first_call": _is_time,
        "warm_up": _is_time,
        "expected": _is_time,
        "calls": _is_count,
    },
    "sample": {"seconds": _is_time, "warmed": _is_time_or_none, "made": _is_time_or_none},
    "rows": {"rows": _are_tensors},
    "load": {"loaded": _is_count},
    "proof": {"found": _are_tensors},
    "warm": {"alone": lambda value: isinstance(value, bool)},
    "memory": {"memory": _is_memory, "kernel": lambda value: isinstance(value, str)},
    "energy": {"telemetry": lambda value: isinstance(value, dict)},
    "ceilings": {"ceilings": _are_numbers},
}
"""What each verb answers, where it answers."""


def lost(given: object) -> Answer:
    """The status of a process that did not answer."""
    if isinstance(given, Missing | Broken):
        return {"status": "missing" if isinstance(given, Missing) else "raised", "detail": given.reason}
    if isinstance(given, Hung):
        return {"status": "hung", "detail": str(given)}
    if isinstance(given, Died):
        short = any(words in given.printed.lower() for words in serving.OUT_OF_MEMORY)
        killed = "; the system may have been out of memory" if given.how == "SIGKILL" else ""
        return {"status": "out_of_memory" if short else "died", "detail": f"{given}{killed}"}
    return {"status": "died", "detail": f"answered garbage: {given!r:.80}"}
