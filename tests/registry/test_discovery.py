"""What is registered: the files in a folder of implementations, and entry points."""

import subprocess
import sys
from pathlib import Path

import pytest
from targets import PLAIN, Write, names

from attnsuite import implementation
from attnsuite.registry import Broken, discover, discovery, load

# What a room declares


def test_a_room_is_listed_in_order_without_its_helpers(room: Path) -> None:
    assert names(discover()) == [
        "attention/chunked",
        "attention/eager",
        "attention/sdpa.flash",
        "attention/sdpa.math",
        "transformer/eager",
    ]


def test_a_declaration_is_read_from_the_source(room: Path) -> None:
    chunked, _, flash, math, _ = found = discover()
    assert not any(declaration.broken for declaration in found)
    assert chunked.summary == "Attention in chunks."
    assert chunked.parameters == ("query", "key", "value", "scale")
    assert math.summary == "The formula."
    assert math.parameters is None, "it takes everything"
    assert math.requires == ("json",)
    assert math.conventions == {"causal": "lower_right"}
    assert flash.summary == "Several backends."
    assert flash.lacks == {"bool_mask": "the kernel takes none"}
    assert flash.function == "flash"
    assert Path(flash.file) == room / "attention" / "sdpa.py"


def test_parameters_of_a_library_are_known_after_the_import(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from attnsuite import implementation\n@implementation\ndef attention(q, k, v, softmax_scale=None): ...\n"
    monkeypatch.setattr(discovery, "HOME", write("room/attention/mine.py", text).parent.parent)
    (declaration,) = discover()

    assert declaration.parameters is None
    assert load(declaration).declaration.parameters == ("query", "key", "value", "scale", "enable_gqa")


def test_listing_the_shipped_room_imports_neither_torch_nor_an_implementation() -> None:
    program = (
        "import sys; from attnsuite.registry import discover; found = discover(); "
        "print(*(d.full_name for d in found if not d.broken)); "
        "assert 'torch' not in sys.modules and not any(m.startswith('attnsuite.implementations.') for m in sys.modules)"
    )
    listed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {"attention/matmul", "attention/loops", "attention/torch_sdpa.flash"} <= set(listed.split())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def attention(:", "SyntaxError: invalid syntax (odd.py, line 1)"),
        ("x = '\0'", ("SyntaxError", "ValueError: source code string cannot contain null bytes")),  # before 3.11.4
        ("x = 1", "decorates no function with @implementation"),
        (
            "def implementation(f): return f\n@implementation\ndef f(): ...",
            "decorates no function with @implementation",
        ),
        (
            "from attnsuite import implementation\nLACKS = {}\n@implementation(lacks=LACKS)\ndef f(): ...",
            "line 3: lacks of @implementation is not a literal; write its value, which is read without an import",
        ),
        (
            "from attnsuite import implementation as declare\n@declare(**{})\ndef f(): ...",
            "line 2: @implementation expects keyword arguments, written one by one",
        ),
        (
            "from attnsuite import implementation\n@implementation(requires='jax')\ndef f(): ...",
            "line 2: @implementation: Expected `array`, got `str` - at `$.requires`",
        ),
        (
            "from attnsuite import implementation\n@implementation(needs=['jax'])\ndef f(): ...",
            "line 2: @implementation: Object contains unknown field `needs`",
        ),
        (
            "from attnsuite import implementation\n@implementation\ndef f(): ...\n@implementation\ndef g(): ...",
            "lines 3 and 5 both declare 'odd': keep one, or give each a variant",
        ),
    ],
)
def test_what_cannot_be_read_stands_in_the_list_with_the_reason(
    write: Write, monkeypatch: pytest.MonkeyPatch, text: str, reason: str | tuple[str, ...]
) -> None:
    monkeypatch.setattr(discovery, "HOME", write("room/attention/odd.py", text).parent.parent)
    (declaration,) = discover()
    assert declaration.full_name == "attention/odd"
    assert declaration.broken.startswith(reason)
    loaded = load(declaration)
    assert isinstance(loaded, Broken)
    assert loaded.reason == declaration.broken


def test_the_decorator_refuses_what_the_reader_refuses() -> None:
    with pytest.raises(TypeError, match="unknown field `needs`"):
        implementation(needs=["jax"])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"got `str` - at `\$.requires`"):
        implementation(requires="jax")
    with pytest.raises(TypeError, match=r"length >= 1 - at `\$.lacks"):
        implementation(lacks={"causal": ""})
    with pytest.raises(TypeError, match=r"got `object` - at `\$.conventions"):
        implementation(conventions={"causal": {"bool_mask": object()}})


# Entry points


def test_entry_points_are_listed_without_importing_them(importable: Path, write: Write) -> None:
    write("third/__init__.py", "raise SystemExit")
    write("third/kernel.py", PLAIN + "\ndef other(query, key, value): ...\n")
    write(
        "third-1.0.dist-info/entry_points.txt",
        """
        [attnsuite.implementations]
        kernel = third.kernel
        transformer/other = third.kernel:other
        gone = third.gone:attention
        gone.function = third.kernel:attentoin
        nonsense/x = third.kernel
        """,
    )
    write("third-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: third\nVersion: 1.0\n")
    found = {d.full_name: d for d in discover() if d.module.startswith("third")}
    assert set(found) == {
        "attention/kernel", "transformer/other", "attention/gone", "attention/gone.function", "nonsense/x",
    }  # fmt: skip
    assert found["attention/kernel"].parameters == ("query", "key", "value", "scale")
    assert found["attention/gone"].broken == "ModuleNotFoundError: No module named 'third.gone'"
    assert "third" not in sys.modules
    write("third/__init__.py", "")
    gone = load(found["attention/gone.function"])
    assert isinstance(gone, Broken)
    assert "has no function 'attentoin': did you mean attention? it has attention, other" in gone.reason


def test_an_entry_point_that_takes_a_shipped_name_does_not_hide_it(importable: Path, write: Write) -> None:
    write("third.py", PLAIN)
    write("third-1.0.dist-info/entry_points.txt", "[attnsuite.implementations]\nattention/matmul = third:attention\n")
    write("third-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: third\nVersion: 1.0\n")
    assert {"attention/matmul", "attention/matmul@third"} <= set(names(discover()))
