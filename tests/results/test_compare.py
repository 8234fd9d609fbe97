"""What changed between two sets of outcomes: new, gone, another status."""

from builders import measured, outcome, without_time

from attnsuite.results.compare import both, changes


def test_equal_rows_are_no_change():
    assert changes([outcome("a/1")], [outcome("a/1")]) == []
    assert both([outcome("a/1"), outcome("a/2")], [outcome("a/1")]) == 1


def test_what_fails_now_comes_first_then_what_changed_then_new_and_gone():
    old = [outcome("a/1"), outcome("a/2", "failed"), outcome("a/3", "unsupported"), outcome("a/gone")]
    new = [
        outcome("a/1", "failed"),
        outcome("a/2"),
        outcome("a/3", "unsupported"),
        outcome("a/new"),
        outcome("a/bad", "crashed"),
    ]

    results = changes(old, new)

    assert [(change.row.case, change.says, change.worse) for change in results] == [
        ("a/1", "passed → failed", True),
        ("a/bad", "absent → crashed", True),
        ("a/2", "failed → passed", False),
        ("a/new", "absent → passed", False),
        ("a/gone", "passed → absent", False),
    ]


def test_a_failure_that_a_finding_records_does_not_count_until_it_is_no_longer_recorded():
    known = outcome("a/1", "failed", known="nan-rows")

    assert not changes([outcome("a/1")], [known])[0].worse
    assert changes([known], [outcome("a/1", "failed")])[0].worse
    assert changes([known], [known]) == []


def test_a_time_that_is_refused_now_is_a_change_of_status():
    (change,) = changes([measured("chunked")], [without_time("chunked", "refused")])

    assert (change.says, change.worse) == ("measured → refused", True)
