"""Numbers with units."""

import pytest

from attnsuite.report import units


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123456, "0.0123"), (1.2949, "1.29"), (9.996, "10.0"), (45, "45.0"), (1234, "1,230"), (0, "0"), (-2, "−2.00")],
)
def test_a_number_has_three_digits_and_no_exponent(value, text):
    assert units.significant(value) == text


@pytest.mark.parametrize(
    ("bytes_", "text"),
    [(0, "0 B"), (48, "48 B"), (2**16, "64.0 KiB"), (3 * 2**29, "1.50 GiB"), (None, "–"), (float("inf"), "–")],
)
def test_bytes_have_a_fitting_unit(bytes_, text):
    assert units.size(bytes_) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(2.4947, "2.49× faster"), (0.87, "1.15× slower"), (1 / 2.4947, "2.49× slower"), (1.0, "1.00×"), (0.9999, "1.00×")],
)
def test_a_speed_up_is_never_below_one(ratio, text):
    assert units.speed(ratio) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.5, "0.50 s"), (59, "59 s"), (112.4, "1 min 52 s"), (7260, "2 h 1 min")]
)
def test_a_long_duration_is_in_minutes(seconds, text):
    assert units.duration(seconds) == text
