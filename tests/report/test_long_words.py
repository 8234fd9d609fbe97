"""A message of a submission that is one very long word, in the lines that a check ends with."""

from attnsuite.model import Outcome, Status
from attnsuite.report import summary_lines


def test_a_very_long_word_is_shortened_in_its_middle_and_what_follows_is_seen():
    said = f"ValueError: a{'Z' * 3000}b; it is called as f(x)"
    outcome = Outcome("attention/mine", "attention", "plain/small", "float32", "cpu", Status.RAISED, said)

    (line,) = (line for line in summary_lines([outcome]) if "ValueError" in line)

    assert len(line) < 250
    assert "ValueError: aZZ" in line
    assert "ZZ…ZZ" in line
    assert line.endswith("Zb; it is called as f(x)")
