"""The size from which tests fail: `right up to 32 keys, wrong from 33 on`."""

from __future__ import annotations

from collections.abc import Sequence

from attnsuite.conformance.diagnosis.separation import Asked, enough

FEWEST_SIZES = 2
"""Different sizes that must pass below a threshold, and fail above it: fewer show no threshold."""

MOST_RIGHT = 0.5
"""The share of the tests above a threshold that may pass, if the sentence says so: a wrong tile need not show in every
test that has one."""


def threshold(tests: Sequence[Asked], status: str = "wrong", most_right: float = 0.0) -> str:
    """A sentence; empty where no size separates failing tests from passing ones.

    No test fails below the threshold. Of the tests above it at most the share `most_right` passes.
    """
    found = [_at(name, tests, status, most_right) for name in ("keys", "queries", "width")]
    return min(filter(None, found), default=(0, ""))[1]


def _at(name: str, tests: Sequence[Asked], status: str, most_right: float) -> tuple[int, str] | None:
    """How many tests pass above the threshold of this size, and the sentence."""
    failing = {test: test.sizes.get(name, 0) for test in tests if test.failed}
    if not failing or (first := min(failing.values())) == 0:
        return None
    sizes = {test: test.sizes[name] for test in tests if not test.failed and name in test.sizes}
    below = {test: size for test, size in sizes.items() if size < first}
    above = len(sizes) - len(below)
    if not enough(failing, below) or min(len(set(failing.values())), len(set(below.values()))) < FEWEST_SIZES:
        return None
    if above > most_right * (above + len(failing)):
        return None
    share = f" in {len(failing)} of {above + len(failing)} tests" if above else ""
    of = f"a {name} of {max(below.values())}" if name == "width" else f"{max(below.values())} {name}"
    return above, f"right up to {of}, {status}{share} from {first} on"
