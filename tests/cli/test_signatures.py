"""`attnsuite check` and `bench` in the signatures of other libraries, in processes of their own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite import registry
from attnsuite.cli import campaign
from attnsuite.cli.progress import Display
from attnsuite.conformance.parallel import session_of
from attnsuite.conformance.request import CheckRequest
from attnsuite.model import Outcome

SIGNED = Path(__file__).parents[1] / "submissions" / "signed.py"
FLASH = "flash_attn, recognised by softmax_scale: axes (b, s, h, d); "

StatusOf = Callable[..., object]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_signature_is_printed_before_the_tests_run(jobs: int) -> None:
    events: list[str] = []

    class Watching(Display):
        def introduce(self, line: str) -> None:
            events.append(line)

        def count(self, outcome: Outcome) -> None:
            events.append(outcome.status)

    options = CheckRequest(("plain/small", "causal/more_keys"), ("float32",))
    with session_of(options, 1, jobs) as session:
        campaign.check(session, registry.find([f"{SIGNED}:flash_with_more"]), Watching(2, None))

    assert FLASH in events[0]
    assert events[1:] == ["passed", "passed"]


def test_a_call_to_paste_shows_the_mistake(status_of: StatusOf, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("check", f"{SIGNED}:flash_unscaled", "--dtype", "float32", "--case", "plain/small") == 1
    lines = capsys.readouterr().out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("# ")) + 1

    exec("\n".join(lines[start:]), {})

    printed = capsys.readouterr().out.split()
    assert printed[0] == "actual"
    assert printed[1] != printed[printed.index("expected") + 1]


@pytest.mark.slow
def test_bench_times_it_and_says_the_same(status_of: StatusOf, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--workload", "documents/one-sentence", "--budget", "0.001", "--json", "rows.jsonl")

    status = status_of("bench", f"{SIGNED}:flash_with_more", *words)

    printed = capsys.readouterr().out
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert status == 0, printed
    assert printed.startswith(f"attention/flash_with_more is tested with the signature {FLASH}")
    assert {row["status"] for row in rows if row["implementation"] == "attention/flash_with_more"} == {"measured"}
