"""Importing a submission: what it may do, and what it cannot do to the process."""

import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from targets import SUBMISSIONS, Write, loaded

from attnsuite import implementation, registry
from attnsuite.registry import Broken, Declaration, Loaded, Missing, discover, find, load, source

# Loading


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nosuch", "ModuleNotFoundError: No module named 'nosuch' (kernel.py, line 2)"),
        ("1/0", "ZeroDivisionError: division by zero (kernel.py, line 2)"),
        (
            "from . import tiles",
            "ImportError: attempted relative import with no known parent package (kernel.py, line 2); a file is "
            "imported by itself, without its package: name its module, as package.module:function",
        ),
        ("raise SystemExit(3)", "SystemExit: 3 (kernel.py, line 2)"),
        ("raise ValueError('two\\nlines')", "ValueError: two lines (kernel.py, line 2)"),
        ("import pytest; pytest.skip('no', allow_module_level=True)", "Skipped: no (kernel.py, line 2)"),
        (
            "import json; json.loads('?')",
            "JSONDecodeError: Expecting value: line 1 column 1 (char 0) (kernel.py, line 2)",
        ),
        (
            "class E(Exception):\n    def __str__(self): raise self\nraise E",
            "E: (its message cannot be printed) (kernel.py, line 4)",
        ),
    ],
)
def test_an_import_that_raises_is_broken(write: Write, text: str, reason: str) -> None:
    before = {name for name in sys.modules if name.startswith("attnsuite_file")}
    result = loaded(write("kernel.py", f"def attention(query, key, value): ...\n{text}"))
    assert isinstance(result, Broken)
    assert result.reason == reason
    assert {name for name in sys.modules if name.startswith("attnsuite_file")} == before


@pytest.mark.parametrize(("folder", "place"), [("my-packages", " (kernel.py, line 1)"), ("site-packages", "")])
def test_the_line_of_an_error_is_one_of_the_author_s(write: Write, folder: str, place: str) -> None:
    result = loaded(write(f"{folder}/kernel.py", "1/0\ndef attention(query, key, value): ..."))
    assert isinstance(result, Broken)
    assert result.reason == f"ZeroDivisionError: division by zero{place}"


def test_an_interrupted_import_is_interrupted(write: Write) -> None:
    with pytest.raises(KeyboardInterrupt):
        loaded(write("kernel.py", "def attention(): ...\nraise KeyboardInterrupt"))


def test_the_output_of_an_import_is_discarded_and_that_of_a_call_is_not() -> None:
    program = (
        "import sys; from attnsuite.registry import find, load; "
        f"load(find([{str(SUBMISSIONS / 'prints_while_imported.py')!r}])[0]).function(1, 2, 3)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("now\n", "later")


@pytest.mark.parametrize(
    ("variable", "usual", "own"),
    [("ORT_DISABLE_TELEMETRY", "1", "0"), ("XLA_PYTHON_CLIENT_PREALLOCATE", "false", "true")],
)
def test_libraries_neither_report_nor_take_all_memory_unless_the_user_lets_them(
    write: Write, monkeypatch: pytest.MonkeyPatch, variable: str, usual: str, own: str
) -> None:
    file = write("kernel.py", f"import os\ndef attention(query, key, value): return os.environ[{variable!r}]")

    monkeypatch.delenv(variable, raising=False)
    by_default = loaded(file).function(1, 2, 3)
    monkeypatch.setenv(variable, own)
    by_user = loaded(file).function(1, 2, 3)

    assert (by_default, by_user) == (usual, own)


def test_what_an_import_changes_in_the_process_is_undone() -> None:
    def state() -> list[object]:
        return [
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.get_rng_state().tolist(),
            random.getstate(),
            np.random.get_state()[1].tolist(),  # noqa: NPY002  the very state that must not change
            Path.cwd(),
            list(sys.path),
            sys.stdout,
        ]

    before = state()
    assert isinstance(loaded(SUBMISSIONS / "changes_the_process.py"), Loaded)
    assert state() == before
    with pytest.warns(UserWarning, match="still heard"):
        warnings.warn("still heard", stacklevel=1)


def test_files_of_one_name_import_their_own_neighbours(write: Write) -> None:
    text = "import neighbour\ndef attention(query, key, value): return neighbour.NAME"
    files = [write(f"{folder}/kernel.py", text) for folder in "ab"]
    for folder in "ab":
        write(f"{folder}/neighbour.py", f"NAME = {folder!r}")
    first, second = (loaded(file) for file in files)
    assert isinstance(first, Loaded)
    assert isinstance(second, Loaded)
    assert (first.function(1, 2, 3), second.function(1, 2, 3)) == ("a", "b")


def test_a_neighbour_shadows_no_library(write: Write) -> None:
    write("json.py", "raise SystemExit")
    file = write("kernel.py", "import json\njson.dumps\ndef attention(query, key, value): ...")
    write("wave.py", "raise SystemExit")  # a library that nobody has imported yet
    assert isinstance(loaded(file), Loaded)
    assert isinstance(loaded(write("other.py", "import wave\ndef attention(query, key, value): ...")), Loaded)


def test_a_file_is_run_once_for_all_its_functions_and_again_when_it_changed(write: Write) -> None:
    text = "def attention(*inputs): return {}\ndef other(*inputs): ..."
    file = write("kernel.py", text.format(1))
    one, other = (load(find([f"{file}:{name}"])[0]) for name in ("attention", "other"))
    assert isinstance(one, Loaded)
    assert isinstance(other, Loaded)
    assert one.function.__globals__ is other.function.__globals__
    file.write_text(text.format(2))
    changed = loaded(file)
    assert isinstance(changed, Loaded)
    assert changed.function(1, 2, 3) == 2
    assert not list(file.parent.rglob("__pycache__"))


def test_parameters_come_from_the_function(write: Write) -> None:
    file = write(
        "kernel.py",
        """
        from functools import partial
        from torch.nn.functional import scaled_dot_product_attention as builtin
        def _general(query, key, /, value, *, scale=None, unused): ...
        bound = partial(_general, unused=1)
        """,
    )
    bound, builtin = (load(find([f"{file}:{name}"])[0]) for name in ("bound", "builtin"))
    assert bound.declaration.parameters == ("query", "key", "value", "scale", "unused")
    assert builtin.declaration.parameters is None, "no signature: it takes everything"


def test_declarations_made_at_import_are_known_when_loaded(importable: Path, write: Write) -> None:
    write(
        "home.py",
        "from attnsuite import implementation\n@implementation(lacks={'gqa': 'no'})\ndef f(query, key, value): ...",
    )
    write("facade.py", "from home import f as attention")
    (declaration,) = find(["facade:attention"])
    assert load(declaration).declaration.lacks == {"gqa": "no"}


def test_every_shipped_implementation_is_loaded_or_missing() -> None:
    for declaration in discover():
        if declaration.module.startswith("attnsuite.implementations."):
            assert isinstance(load(declaration), Loaded | Missing), declaration.full_name


# Hashes


@pytest.mark.parametrize("folder", ["site-packages", "mine"])
def test_a_source_hash_follows_no_other_installed_package(write: Write, folder: str) -> None:
    text = "from attnsuite.implementations.blocks import norm\nfrom library.functional import relu\nimport single"
    file = write(f"{folder}/implementations/attention/mine.py", text)
    imported = ("implementations/blocks", "library/functional", "single")
    for name in imported:
        write(f"{folder}/{name}.py", "")
    hashes = [registry.source_hash(Declaration("attention", "mine", "f", file=str(file)))]
    assert (len(hashes[0]), registry.source_hash(Declaration("attention", "mine", "f"))) == (12, "")

    for name in imported:
        write(f"{folder}/{name}.py", f"changed = {name!r}")
        hashes.append(registry.source_hash(Declaration("attention", "mine", "f", file=str(file))))

    assert len(set(hashes)) == (4 if folder == "mine" else 2)
    assert hashes[0] != hashes[1]


def test_a_source_hash_waits_while_another_thread_parses(write: Write) -> None:
    """Two at once may raise a SystemError in Python 3.11, a time in thousands."""
    declaration = Declaration("attention", "mine", "f", file=str(write("mine.py", "def f(): ...")))
    hashes: list[str] = []
    thread = threading.Thread(target=lambda: hashes.append(registry.source_hash(declaration)))
    with source._parser:
        thread.start()
        thread.join(0.3)
        assert hashes == []
    thread.join()

    assert hashes == [registry.source_hash(declaration)]


# Functions at hand


def at_module_level(query: object, key: object, value: object, *, scale: float | None = None) -> None: ...


def test_a_function_at_hand_becomes_an_implementation() -> None:
    found = registry.from_function(at_module_level)
    assert found.declaration.full_name == "attention/at_module_level"
    assert found.declaration.parameters == ("query", "key", "value", "scale")
    again = load(found.declaration)
    assert isinstance(again, Loaded), "a worker can import it"


@pytest.mark.parametrize("function", [lambda query: query, partial(at_module_level, scale=1.0)])
def test_a_function_that_cannot_be_imported_has_no_module(function: Callable[..., object]) -> None:
    declaration = registry.from_function(function, "transformer").declaration
    assert (declaration.contract, declaration.module, declaration.file) == ("transformer", "", "")


def test_a_decorated_function_at_hand_keeps_its_declaration() -> None:
    @implementation(variant="mine", lacks={"gqa": "no"})
    def function(query: object, key: object, value: object) -> None: ...

    declaration = registry.from_function(function).declaration
    assert declaration.lacks == {"gqa": "no"}
