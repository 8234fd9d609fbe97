"""What the tests of the contract `attention` share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kept_answers import KeptAnswers

from attnsuite.conformance import diagnosis


@pytest.fixture(scope="session", autouse=True)
def kept_answers() -> Iterator[None]:
    """Diagnosis runs each mutant on the same calls once in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnosis, "run_calls", KeptAnswers(diagnosis.run_calls))
        yield
