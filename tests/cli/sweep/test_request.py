"""A sweep file is read whole or refused in one line that says what is wrong and what there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite.cli.sweep.request import Sweep, read
from attnsuite.cli.sweeping import words_of
from attnsuite.model import UsageError

Write = Callable[[str, str], Path]
CHECK = "[check]\n"


@pytest.fixture
def swept(write: Write) -> Callable[[str], Sweep]:
    return lambda text: read(write("sweep.toml", text), words_of())


def test_keys_become_the_words_of_the_commands(swept: Callable[[str], Sweep]) -> None:
    found = swept(
        """
        shards = 4
        results = "there"
        [check]
        targets = ["attention/loops", "mine.py"]
        cases = ["plain", "causal"]
        except = "flex"
        isolate = true
        [[bench]]
        workloads = ["vit/b16"]
        threads = [1, 2]
        backward = false
        [[bench]]
        budget = 0.5
        [slurm]
        partition = "gpu"
        """
    )

    assert [(each.name, each.words) for each in found.asked] == [
        (
            "check",
            ("attention/loops", "mine.py", "--case", "plain", "--case", "causal", "--except", "flex", "--isolate"),
        ),
        ("bench", ("--workload", "vit/b16", "--threads", "1", "--threads", "2")),
        ("bench-2", ("--budget", "0.5")),
    ]
    assert (found.results, found.slurm, len(found.parts)) == (Path("there"), {"partition": "gpu"}, 4)
    assert found.folder == found.file.with_suffix(".sweep"), "all that a sweep keeps is beside its file"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "shard = 4\n[check]",
            r"unknown key 'shard'; there are: shards, results, folder, alone, slurm, versions, check",
        ),
        ("[check]\ncase = 'plain'", r"\[check\]: unknown key 'case'; there are: targets, contract, cases, dtypes"),
        ("[check]\nresults = 'x'", r"\[check\]: unknown key 'results'"),
        ("[bench]\nshard = '1/2'", r"\[bench\]: unknown key 'shard'; there are: targets, .*workloads"),
        ("shards = 0\n[check]", "shards is a whole number from 1 to 10000, not 0"),
        ("shards = true\n[check]", "shards is a whole number .* not True"),
        ("shards = 2", r"asks nothing: a table \[check\] or \[bench\] is due"),
        ("[check]\nisolate = 'yes'", "isolate is true or false, not 'yes'"),
        ("[check]\njobs = [[1]]", r"jobs takes words and numbers, not \[1\]"),
        ("check = 3", r"check is a table, \[check\], not 3"),
        ("results = ''\n[check]", "results is the name of a folder, not ''"),
        ("shards =", "is no TOML: Invalid value"),
        ("[check]\n[versions]\n'../up' = []", r"\[versions\] has '../up'; names are of letters"),
        ("[check]\n[versions]\na = []\nA = []", "names that differ in upper case alone"),
        ("[check]\n[versions]\na = [true]", "a takes words and numbers, not True"),
    ],
)
def test_what_cannot_be_is_refused_with_what_there_is(swept: Callable[[str], Sweep], text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        swept(text)

    assert "sweep.toml" in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read(tmp_path / "none.toml", words_of())
    with pytest.raises(UsageError, match="is no TOML"):
        read(tmp_path / "binary.toml", words_of())


def test_every_option_of_a_part_has_a_key() -> None:
    words = words_of()

    assert {"targets", "cases", "dtypes", "except", "known_gaps", "device"} <= set(words["check"].keys)
    assert {"targets", "workloads", "shapes", "backward", "budget", "baseline"} <= set(words["bench"].keys)
    assert words["check"].options["cases"] == "--case"
