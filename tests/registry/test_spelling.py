"""How an implementation is named again, so that what was asked can be asked once more."""

from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite.registry import command_words, discover, find

Write = Callable[[str, str], Path]

MODEL = "def transformer(config, weights, *, attention=None): ..."
DECORATED = """
from attnsuite import implementation

@implementation(variant="one")
def first(config, weights, *, attention=None): ...

@implementation(variant="two")
def second(config, weights, *, attention=None): ...
"""


@pytest.fixture
def files(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for place in ("model.py", "c++/model.py", "transformer/model.py", "transformer/eager.py", "attention/model.py"):
        write(place, MODEL)
    write("decorated.py", DECORATED)
    for place in ("zeros.py", "chunked.py"):  # one is called like what ships here
        write(place, "def attention(query, key, value): ...")
    write("only.py", "def forward(query, key, value): ...")
    write("unreadable.py", "def attention(:")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "contract", "again"),
    [
        ("chunked", None, "attention/chunked"),
        ("eager", "transformer", "transformer/eager"),
        ("chunked.py", None, "{files}/chunked.py"),
        ("zeros:attention", None, "zeros:attention"),
        ("model.py", "transformer", "{files}/model.py"),
        ("model:transformer", "transformer", "model:transformer"),
        ("c++/model.py", "transformer", "{files}/c++/model.py"),
        ("transformer/model.py", None, "{files}/transformer/model.py"),
        ("transformer/eager.py:transformer", None, "{files}/transformer/eager.py:transformer"),
        ("transformer/model.py", "attention", "{files}/transformer/model.py --contract attention"),
        ("attention/model.py", "transformer", "{files}/attention/model.py --contract transformer"),
        ("decorated.py:second", "transformer", "{files}/decorated.py:second --contract transformer"),
        ("only.py", None, "{files}/only.py"),
        ("unreadable.py", None, "{files}/unreadable.py"),
        ("unreadable.py:attention", None, "{files}/unreadable.py:attention"),
        ("eager+chunked", "transformer", "transformer/eager+chunked"),
        ("transformer/eager+attention/chunked", None, "transformer/eager+chunked"),
        ("transformer/eager+chunked.py", None, "transformer/eager+{files}/chunked.py"),
        ("transformer/eager+zeros:attention", None, "transformer/eager+zeros:attention"),
        ("transformer/eager+unreadable.py", None, "transformer/eager+{files}/unreadable.py"),
        ("transformer/eager.py+chunked", None, "{files}/transformer/eager.py+chunked"),
        ("c++/model.py+chunked.py", "transformer", "{files}/c++/model.py+{files}/chunked.py"),
    ],
)
def test_what_is_spelled_is_found_again(files: Path, target: str, contract: str | None, again: str) -> None:
    (found,) = find([target], contract)

    words = command_words([found])[found.full_name]

    assert " ".join(words) == again.format(files=files)
    (same,) = find(words[:1], words[2] if len(words) > 1 else None)
    assert same == found


def test_all_that_is_registered_is_spelled_by_its_name() -> None:
    registered = discover()

    assert command_words(registered) == {each.full_name: (each.full_name,) for each in registered}


def test_one_of_several_decorated_functions_is_spelled_alone(files: Path) -> None:
    found = find(["decorated.py"], "transformer")

    assert [words[0] for words in command_words(found).values()] == [
        f"{files}/decorated.py:{of}" for of in ("first", "second")
    ]
