"""The file of `--junit` has the structure that its readers have in common, whatever a submission says."""

from pathlib import Path

import pytest
from builders import outcome
from lxml import etree

from attnsuite.cli import outputs
from attnsuite.model import Outcome, Reason, Status, UsageError

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parent.parent / "junit.xsd"))
SAID = {
    Status.PASSED: "",
    Status.FAILED: "output[0] is 1, should be 2 & <b>\x1b[31mred\x00",
    Status.ERROR: "ValueError: \udc80 \uffff",
    Status.CRASHED: "SIGSEGV",
    Status.TIMEOUT: "no result within 1 s",
    Status.UNSUPPORTED: "takes no scale",
    Status.MISSING: "No module named 'x'",
}


def outcomes() -> list[Outcome]:
    results = [
        outcome(f"plain/{status}", status, "attention/mine", detail=printed, seconds=1e-5)
        for status, printed in SAID.items()
    ]
    return [*results, outcome("plain/known", "failed", "attention/a\x07", detail="off", known="a-bug")]


def test_every_status_has_its_element() -> None:
    document = etree.fromstring(outputs.junit_document(outcomes(), {}))

    SCHEMA.assertValid(document)
    kinds = {case.get("name"): [child.tag for child in case] for case in document.iter("testcase")}
    assert kinds == {
        "plain/passed[float32]": [],
        "plain/failed[float32]": ["failure"],
        "plain/error[float32]": ["error"],
        "plain/crashed[float32]": ["error"],
        "plain/timeout[float32]": ["error"],
        "plain/unsupported[float32]": ["skipped"],
        "plain/missing[float32]": ["skipped"],
        "plain/known[float32]": ["skipped"],
    }
    counts = [document.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["8", "1", "3", "3"]
    (wrong,) = document.iter("failure")
    assert wrong.get("message") == r"failed: output[0] is 1, should be 2 & <b>\x1b[31mred\x00"
    assert wrong.text == "attnsuite check attention/mine --case plain/failed --dtype float32"


def test_accepted_bad_input_that_fails_nothing_passed_and_says_so() -> None:
    says = "input validation: 9 keys with 7 values was accepted; the contract requires an error"
    accepted = outcome("bad_input/keys", "failed", "attention/mine", detail=says, reason=Reason.LENIENT)
    document = etree.fromstring(outputs.junit_document([accepted], {}))

    SCHEMA.assertValid(document)
    (case,) = document.iter("testcase")
    assert [(child.tag, child.text) for child in case] == [("system-out", says)]
    assert [document.get(name) for name in ("tests", "failures", "skipped")] == ["1", "0", "0"]


def test_it_is_written_over_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    written, other = tmp_path / "ours.xml", tmp_path / "pom.xml"
    other.write_text("<project/>")

    for _ in range(2):
        outputs.refuse_foreign(written, outputs.JUNIT)
        outputs.write_junit(written, outcomes(), {})

    with pytest.raises(UsageError, match="was not written by attnsuite"):
        outputs.refuse_foreign(other, outputs.JUNIT)


def test_an_empty_file_has_nothing_to_lose_to_junit_or_json(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    for opening in (outputs.JUNIT, outputs.ROW):
        empty.write_bytes(b"")
        outputs.refuse_foreign(empty, opening)
        empty.write_bytes(b"\n")
        with pytest.raises(UsageError):
            outputs.refuse_foreign(empty, opening)
