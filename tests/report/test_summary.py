"""What a check ends with and what a benchmark prints after each table: aligned, in words, free of control codes."""

from builders import NASTY, measured, outcome, without_time

from attnsuite.records import EVERY_CASE, Reason
from attnsuite.report import benchmark_lines, summary_lines
from attnsuite.report.benchmark import wording

UNSCALED = {"detail": 'output[0] is -0.68, should be -0.69; equals "unscaled"', "diagnosis": ("unscaled",)}


# A check


def test_summary_has_a_line_each_and_failures_in_groups():
    outcomes = [
        *(outcome(f"c/{number}", "wrong", **UNSCALED) for number in range(3)),
        outcome("ok"),
        outcome("d", "declined"),
        outcome("k", "died", name="attention/torch_sdpa.flash", known="pt-1"),
        outcome(EVERY_CASE, "missing", "attention/jax", detail="No module named 'jax'"),
    ]

    assert summary_lines(outcomes) == [
        "attention/jax               missing: No module named 'jax'",
        "attention/loops             1/4 passed, declined 1, 3 wrong",
        f"  3 × wrong: {UNSCALED['detail']}",
        "      attnsuite check attention/loops --case c/0 --dtype float32",
        "attention/torch_sdpa.flash  0/1 passed, 1 known to fail",
        "  1 × known as pt-1, died",
        "      attnsuite check attention/torch_sdpa.flash --case k --dtype float32",
        "3 in all                    1/5 passed, declined 1, 3 wrong, 1 known to fail, 1 missing",
    ]


def test_what_was_not_asked_comes_last_and_has_no_command():
    says = "hung: not asked, because the 4 answers before it did not come"
    outcomes = [
        outcome("c/0", "hung", detail="hung: no answer within 1 s"),
        *(outcome(f"c/{number}", "hung", detail=says, reason=Reason.NOT_ASKED) for number in range(1, 4)),
    ]

    assert summary_lines(outcomes) == [
        "attention/loops  0/4 passed, 4 hung",
        "  1 × hung: no answer within 1 s",
        "      attnsuite check attention/loops --case c/0 --dtype float32",
        f"  3 × {says}",
    ]


def test_a_lone_implementation_says_what_it_declined_and_why():
    outcomes = [
        outcome("ok"),
        *(outcome(f"m/{number}", "declined", detail="takes no attn_mask") for number in range(3)),
        outcome("c", "declined", detail="takes no is_causal"),
    ]
    many = [outcome(f"m/{number}", "declined", detail=f"lacks {number}") for number in range(10)]

    assert summary_lines(outcomes, reasons=True) == [
        "attention/loops  1/1 passed, declined 4",
        "  3 × declined: takes no attn_mask",
        "  1 × declined: takes no is_causal",
    ]
    assert len(summary_lines(many, reasons=True)) == 10
    assert summary_lines(many, reasons=True)[-1] == "  2 × declined for 2 other reasons"
    assert summary_lines(outcomes) == ["attention/loops  1/1 passed, declined 4"]


def test_summary_names_the_device_where_there_are_several():
    lines = summary_lines([outcome(), outcome(device="cuda")])

    assert [line.split("  ")[0] for line in lines] == ["attention/loops on cpu", "attention/loops on cuda", "2 in all"]


def test_summary_obeys_no_control_codes():
    text = "\n".join(summary_lines([outcome(case, "wrong", case, detail=case) for case in NASTY if case]))

    assert not any(not c.isprintable() for c in text.replace("\n", ""))


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
        "  attention/matmul   20.0 ms         ±0.50 %      baseline  3.94 MiB",
        "  attention/chunked  5.00 ms         ±0.50 %  4.00× faster  3.94 MiB",
        "  attention/einsum   20.0 ms  too few rounds       unclear         –",
        "  attention/flex     refused (known): it fails gqa/rows",
        "  attention/loops    out of memory",
    ]


def test_an_interval_to_one_side_is_shown_as_it_is():
    lines = benchmark_lines([measured(seconds=[0.01] * 6 + [0.02] * 10)])

    assert lines[1].split()[:4] == ["attention/matmul", "20.0", "ms", "−50"]
    assert "  −50 % +0 %  " in lines[1]


def test_what_was_too_slow_says_so_and_is_not_called_declined():
    said = "too slow to time here: a call takes 13 s, more than 5.5 s"
    slow = without_time("attention/loops", "declined", said, reason=Reason.TOO_SLOW)

    assert wording.status(slow) == "too slow"
    assert benchmark_lines([slow])[1] == f"  attention/loops  {slow.detail}"
    assert wording.status(without_time("attention/loops", "declined", "takes no scale")) == "declined"


def test_what_speaks_of_all_workloads_is_a_line_without_a_heading():
    assert benchmark_lines([JAX]) == ["attention/jax_nn  missing: No module named 'jax'"]
    assert benchmark_lines([]) == []


def test_two_tables_have_two_headings():
    lines = benchmark_lines([measured(), measured(workload="ladder/1k"), JAX])

    assert [line.split(",")[0] for line in lines if not line.startswith(" ")] == [
        "attention/jax_nn  missing: No module named 'jax'",
        "ladder/1k",
        "vit/b16",
    ]


def test_terminal_lines_obey_no_control_codes():
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
