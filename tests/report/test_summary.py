"""The lines of a check and of a benchmark: aligned, in words, without control characters."""

from builders import NASTY, measured, outcome, without_time

from attnsuite.model import EVERY_CASE, Reason
from attnsuite.model.limits import NOT_BOUNDED
from attnsuite.report import benchmark_lines, summary_lines
from attnsuite.report import timed as wording

UNSCALED = {"detail": 'output[0] is -0.68, should be -0.69; equals "unscaled"', "diagnosis": ("unscaled",)}


# A check


def test_summary_has_a_line_each_and_failures_in_groups():
    outcomes = [
        *(outcome(f"c/{number}", "failed", **UNSCALED) for number in range(3)),
        outcome("ok"),
        outcome("d", "unsupported"),
        outcome("k", "crashed", name="attention/torch_sdpa.flash", known="pt-1"),
        outcome(EVERY_CASE, "missing", "attention/jax", detail="No module named 'jax'"),
    ]

    assert summary_lines(outcomes) == [
        "attention/jax               missing: No module named 'jax'",
        "attention/loops             1 of 4 passed, 3 failed; 1 more unsupported",
        f"  3 × failed: {UNSCALED['detail']}",
        "      attnsuite check attention/loops --case c/0 --dtype float32",
        "attention/torch_sdpa.flash  0 of 1 passed, 1 known to fail",
        "  1 × known as pt-1, crashed",
        "      attnsuite check attention/torch_sdpa.flash --case k --dtype float32",
        "3 in all                    1 of 5 passed, 3 failed, 1 known to fail; 1 more unsupported, 1 more missing",
    ]


def test_skipped_tests_come_last_and_have_no_command():
    says = "timeout: skipped after 4 timeouts in a row"
    outcomes = [
        outcome("c/0", "timeout", detail="timeout: no reply within 1 s"),
        *(outcome(f"c/{number}", "timeout", detail=says, reason=Reason.SKIPPED) for number in range(1, 4)),
    ]

    assert summary_lines(outcomes) == [
        "attention/loops  0 of 4 passed, 4 timeouts",
        "  1 × timeout: no reply within 1 s",
        "      attnsuite check attention/loops --case c/0 --dtype float32",
        f"  3 × {says}",
    ]


ACCEPTED = "input validation: 9 keys with 7 values was accepted; the contract requires an error"


def accepted(case="bad_input/keys", **others):
    return outcome(case, "failed", **{"detail": ACCEPTED, "reason": Reason.LENIENT, **others})


def test_accepted_bad_input_that_fails_is_below_wrong_results():
    outcomes = [
        *(accepted(f"bad_input/{number}", reason=Reason.NONE) for number in range(3)),
        outcome("c", "failed", detail="output[0] is 1, should be 2"),
    ]

    assert summary_lines(outcomes, reasons=True)[1::2] == [
        "  1 × failed: output[0] is 1, should be 2",
        f"  3 × failed: {ACCEPTED}",
        "  input validation: 0 of 3 bad inputs are refused",
    ]


def test_several_implementations_that_refuse_all_bad_input_have_no_line_for_it():
    outcomes = [*(outcome(case) for case in ("ok", "bad_input/a")), outcome("ok", name="attention/other")]

    assert summary_lines(outcomes) == [
        "attention/loops  1 of 1 passed",
        "attention/other  1 of 1 passed",
        "2 in all         2 of 2 passed",
    ]


def test_summary_names_the_device_where_there_are_several():
    lines = summary_lines([outcome(), outcome(device="cuda")])

    assert [line.split("  ")[0] for line in lines] == ["attention/loops on cpu", "attention/loops on cuda", "2 in all"]


# A benchmark

JAX = without_time("attention/jax_nn", "missing", "No module named 'jax'", EVERY_CASE)


def test_a_table_is_a_heading_and_a_line_each():
    rows = [
        measured(seconds=0.02),
        measured("attention/chunked", seconds=0.005),
        measured("attention/einsum", seconds=[0.02] * 3, memory={}),
        without_time("attention/flex", "refused", "it fails gqa/rows", known="pt-1"),
        without_time("attention/loops", "out_of_memory"),
    ]

    assert benchmark_lines(rows, "12 heads", "matmul") == [
        "vit/b16, 12 heads, float32 on cpu, one thread, forward, hot cache",
        "  attention/matmul   20.0 ms         ±0.50 %                      baseline  3.94 MiB",
        "  attention/chunked  5.00 ms         ±0.50 %                  4.00× faster  3.94 MiB",
        "  attention/einsum   20.0 ms  too few rounds  inconclusive: too few rounds         –",
        "  attention/flex     refused (known bug): it fails gqa/rows",
        "  attention/loops    out of memory",
    ]


def test_a_time_that_is_not_bounded_says_so_below_its_line():
    why = "the machine was busy (load 14 on 2 cores): calls on new inputs took 2.44 times as long"
    rows = [measured(seconds=0.02), measured("chunked", seconds=0.005, detail=f"{NOT_BOUNDED}: {why}")]

    assert benchmark_lines(rows, "", "matmul")[1:] == [
        "  attention/matmul   20.0 ms  ±0.50 %      baseline  3.94 MiB",
        "  attention/chunked  5.00 ms  ±0.50 %  4.00× faster  3.94 MiB",
        f"    not bounded: {why}",
    ]


def test_an_asymmetric_interval_has_two_distances():
    lines = benchmark_lines([measured(seconds=[0.01] * 6 + [0.02] * 10)])

    assert lines[1].split()[:4] == ["attention/matmul", "20.0", "ms", "−50"]
    assert "  −50 % +0 %  " in lines[1]


def test_too_slow_is_not_called_unsupported():
    said = "too slow to time here: a call takes 13 s, more than 5.5 s"
    slow = without_time("attention/loops", "unsupported", said, reason=Reason.TOO_SLOW)

    assert wording.absence(slow) == "too slow"
    assert benchmark_lines([slow])[1] == f"  attention/loops  {slow.detail}"
    assert wording.absence(without_time("attention/loops", "unsupported", "takes no scale")) == "unsupported"


def test_a_row_about_all_workloads_has_no_heading():
    assert benchmark_lines([JAX]) == ["attention/jax_nn  missing: No module named 'jax'"]
    assert benchmark_lines([]) == []


def test_two_tables_have_two_headings():
    lines = benchmark_lines([measured(), measured(workload="ladder/1k"), JAX])

    assert [line.split(",")[0] for line in lines if not line.startswith(" ")] == [
        "attention/jax_nn  missing: No module named 'jax'",
        "ladder/1k",
        "vit/b16",
    ]


def test_terminal_lines_have_no_control_characters():
    rows = [
        row
        for place, words in enumerate(NASTY)
        for row in (
            measured(f"attention/{words}{place}", detail=words),
            without_time(f"{words}{place}", "refused", words, words, known=words, device=words, dtype=words),
        )
    ]

    lines = benchmark_lines(rows, NASTY[12], NASTY[12])

    assert lines
    assert all(character.isprintable() for line in lines for character in line)


def test_a_long_message_loses_its_explanation_and_keeps_its_number():
    number = "output[0, 1] is 1.5, should be 0 within 2e-07 (error inf × the tolerance; 3 of 300 elements)"
    detail = f'equals "unscaled": {"the scores are not divided by the root of the width, " * 10}; {number}'

    _, line, _ = summary_lines([outcome("plain/small", "failed", detail=detail)])

    assert line.startswith('  1 × failed: equals "unscaled": the scores')
    assert line.endswith(f"…; {number}")
    assert len(line) <= 410
