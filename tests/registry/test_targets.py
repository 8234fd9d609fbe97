"""Every way to name an implementation, and every way in which a request can be wrong."""

import sys
from pathlib import Path

import pytest
from targets import PLAIN, Write, complaint, names

from attnsuite.registry import Loaded, discover, discovery, find, load, without

# Targets


def test_no_target_means_all(room: Path) -> None:
    assert find() == discover()
    assert names(find((), "transformer")) == ["transformer/eager"]


@pytest.mark.parametrize(
    ("target", "contract", "meant"),
    [
        ("attention/chunked", None, ["attention/chunked"]),
        ("chunked", None, ["attention/chunked"]),
        ("sdpa", None, ["attention/sdpa.flash", "attention/sdpa.math"]),
        ("attention/sdpa", None, ["attention/sdpa.flash", "attention/sdpa.math"]),
        ("sdpa.flash", None, ["attention/sdpa.flash"]),
        ("transformer/*", None, ["transformer/eager"]),
        ("sdpa.*", None, ["attention/sdpa.flash", "attention/sdpa.math"]),
        ("eager", None, ["attention/eager"]),  # a name alone is an attention's where there is one
        ("eager", "transformer", ["transformer/eager"]),
    ],
)
def test_a_name_means(room: Path, target: str, contract: str | None, meant: list[str]) -> None:
    assert names(find([target], contract)) == meant


def test_a_target_named_twice_is_found_once(room: Path) -> None:
    assert names(find(["sdpa.math", "sdpa", str(room / "attention" / "sdpa.py")])) == [
        "attention/sdpa.math",
        "attention/sdpa.flash",
    ]


def test_a_function_in_a_file_needs_no_decorator(write: Write) -> None:
    file = write("kernel.py", "def forward(query, key, value): ...\ndef attention(): ...\nmade = print")
    assert names(find([f"{file}:forward", f"{file}:attention", f"{file}:made"])) == [
        "attention/forward",
        "attention/kernel",
        "attention/made",
    ]


def test_a_decorated_function_in_a_file_keeps_its_name_and_declaration(room: Path) -> None:
    (declaration,) = find([f"{room}/attention/sdpa.py:flash"])
    assert declaration.full_name == "attention/sdpa.flash"
    assert declaration.lacks == {"bool_mask": "the kernel takes none"}


def test_the_folder_says_the_contract_unless_the_user_does(write: Write) -> None:
    file = str(write("attention/kernel.py", PLAIN))
    assert find([file])[0].contract == "attention"
    assert find([str(write("elsewhere/kernel.py", PLAIN))])[0].contract == "attention"
    assert find([file], "bleu")[0].contract == "bleu"


def test_a_function_in_a_module_is_found_without_importing_it(importable: Path, write: Write) -> None:
    write("outer/__init__.py", "raise SystemExit")
    write("outer/inner.py", "def forward(query, key, value, *, scale=None): ...")
    (declaration,) = find(["outer.inner:forward"])
    assert declaration.full_name == "attention/forward"
    assert "outer" not in sys.modules


def test_a_module_in_the_current_folder_is_found(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("mine_here.py", "def forward(query, key, value): return 'mine'")
    monkeypatch.chdir(tmp_path)
    loaded = load(find(["mine_here:forward"])[0])
    sys.modules.pop("mine_here")
    assert isinstance(loaded, Loaded)
    assert loaded.function(1, 2, 3) == "mine"


# Every usage error, one line each


def test_a_name_that_only_the_import_can_deny_is_denied_then(write: Write) -> None:
    file = write("kernel.py", "globals()['made'] = print")
    assert complaint(f"{file}:absent") == "kernel.py has no function 'absent'"
    assert isinstance(load(find([f"{file}:made"])[0]), Loaded)


def test_an_import_is_not_meant_where_a_function_is_decorated(write: Write) -> None:
    file = write("kernel.py", f"from os import path as attention\n{PLAIN.replace('attention', 'mine')}")

    assert find([str(file)])[0].function == "mine"


def test_the_decorator_says_the_contract_unless_the_user_does(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "from attnsuite import implementation\n@implementation(contract='bleu')\ndef score(): ...\n"
    file = write("attention/kernel.py", said)

    for target in (str(file), f"{file}:score"):
        assert [find([target])[0].contract, find([target], "add_norm")[0].contract] == ["bleu", "add_norm"]
    monkeypatch.setattr(discovery, "HOME", file.parents[1])
    assert find()[0].broken == "it is registered as attention, and its decorator says bleu"


@pytest.mark.parametrize(
    ("excluded", "remaining"),
    [
        ("flex", ["host", "host+chunked"]),
        ("attention/chunked", ["host", "host+flex"]),
        ("multi_head_attention/split_heads", []),
        ("multi_head_attention/split_heads+flex", ["host", "host+chunked"]),
    ],
)
def test_what_is_excluded_is_no_backend_and_no_host_of_the_rest(excluded: str, remaining: list[str]) -> None:
    targets = ["split_heads", "split_heads+flex", "split_heads+chunked"]
    declarations = find(targets, "multi_head_attention")

    left = without(declarations, [excluded], "multi_head_attention")

    host = "multi_head_attention/split_heads"
    assert names(left) == [each.replace("host", host) for each in remaining]
