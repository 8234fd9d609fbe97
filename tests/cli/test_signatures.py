"""`attnsuite check` and `bench` in the signatures of other libraries, in processes of their own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

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
Write = Callable[[str, str], Path]


class Checked(NamedTuple):
    status: object
    lines: list[str]
    said: str

    @property
    def all(self) -> str:
        return "\n".join(self.lines)


Check = Callable[..., Checked]


@pytest.fixture
def check(status_of: StatusOf, capsys: pytest.CaptureFixture[str]) -> Check:
    def run(name: str, *cases: str, options: tuple[str, ...] = ()) -> Checked:
        patterns = [word for case in cases for word in ("--case", case)]
        target = name if "/" in name else f"{SIGNED}:{name}"
        status = status_of("check", target, "--dtype", "float32", *patterns, *options)
        printed = capsys.readouterr()
        lines = [line for line in printed.out.splitlines() if not line.startswith(("sandbox: ", "operators: "))]
        return Checked(status, lines, printed.err)

    return run


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


@pytest.mark.parametrize(
    ("name", "cases", "says"),
    [
        ("flash_upper_left", ("causal/more_keys",), "first key; flash_attn's convention: aligned at the last"),
        ("flash_unscaled", ("plain/small", "plain/ordinary"), 'equals "unscaled"'),
        ("flash_ignores_scale", ("scale/half",), "a given softmax_scale is ignored"),
        ("flash_over_heads", ("plain/self_attention",), 'equals "reads_positions_as_heads": '),
        ("flash_over_heads", ("plain/small",), "it is called with q, k, v of axes (b, s, h, d)"),
        ("flash_answers_transposed", ("plain/small",), "output has shape ("),
    ],
)  # fmt: skip
def test_a_mistake_is_named_in_the_signature_s_words(
    check: Check, name: str, cases: tuple[str, ...], says: str
) -> None:
    results = check(name, *cases)

    assert results.status == 1
    assert says in results.all


def test_a_failing_place_is_one_of_the_signature_s_axes_and_the_call_to_paste_its_own(check: Check) -> None:
    results = check("flash_unscaled", "plain/small")

    assert "(b, s, h, d) is " in results.all
    assert "from signed import flash_unscaled as attention" in results.all
    assert "actual = attention(query[None, None].transpose(1, 2), key[None, None].transpose(1, 2), " in results.all


def test_a_call_to_paste_shows_the_mistake(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    lines = check("flash_unscaled", "plain/small").lines
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
