"""A process that forges replies does not affect others in the same run, and forged values are not stored."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

Write = Callable[[str, str], Path]
Status = Callable[..., object]

FORGES = (Path(__file__).parent.parent / "submissions" / "forges_replies.py").read_text(encoding="utf-8")
HONEST = """
    def attention(query, key, value, *, is_causal=False, scale=None):
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        scores = query @ key.mT * scale
        if is_causal:
            scores = scores.masked_fill(scores.new_ones(scores.shape[-2:]).tril() == 0, float("-inf"))
        return scores.softmax(-1) @ value
    """
ASKED = ("--case", "plain/small", "--case", "gradients/scaled", "--dtype", "float32")


def rows(file: Path, implementation: str) -> list[dict[str, object]]:
    results = map(json.loads, file.read_text().splitlines())
    return [item for item in results if item["implementation"] == f"attention/{implementation}"]


@pytest.mark.parametrize(
    ("what", "statuses"),
    [
        ("nothing", {"passed"}),
        ("no gradients", {"passed", "crashed"}),
        ("huge gradients", {"passed", "crashed"}),
        ("other gradients", {"passed", "failed"}),
    ],
)
def test_after_forged_gradients_the_next_implementation_is_tested(
    what: str, statuses: set[str], write: Write, status_of: Status, tmp_path: Path
) -> None:
    write("forges.py", FORGES.replace('WHAT = "nothing"', f"WHAT = {what!r}"))
    write("honest.py", HONEST)

    status = status_of("check", "forges.py", "honest.py", *ASKED, "--json", "out.json", "--junit", "out.xml")

    assert status == (0 if what == "nothing" else 1)
    assert {row["status"] for row in rows(tmp_path / "out.json", "forges")} == statuses
    assert [row["status"] for row in rows(tmp_path / "out.json", "honest")] == ["passed", "passed"]
    assert len(list(ElementTree.parse(tmp_path / "out.xml").iter("testcase"))) == 4


@pytest.mark.slow
def test_gaps_that_only_the_import_tells_are_noted(
    write: Write, status_of: Status, capsys: pytest.CaptureFixture[str]
) -> None:
    decorator = '    from attnsuite import implementation\n\n    @implementation(lacks={"causal": "not yet"})'
    write("kernels_of_mine.py", f"{decorator}{HONEST}")
    write("gap.py", "from kernels_of_mine import attention")
    options = ("--case", "plain", "--case", "causal", "--dtype", "float32", "--results", "out")

    assert status_of("check", "gap.py", *options) == 1
    assert "declares it lacks causal, yet passes" in capsys.readouterr().out

    assert status_of("verify", "out") == 0, capsys.readouterr()
