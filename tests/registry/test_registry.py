"""Finding and loading implementations, and every way in which a request or a submission can be wrong."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from suite import implementation, registry
from suite.records import UsageError
from suite.registry import Broken, Declaration, Loaded, Missing, discover, find, load

Write = Callable[[str, str], Path]

PLAIN = """
from suite import implementation

@implementation
def attention(query, key, value, *, scale=None):
    return value
"""


@pytest.fixture
def room(write: Write, tmp_path: Path) -> Path:
    """A room with two contracts and a name that stands in both."""
    write("room/attention/chunked.py", '"""Attention in chunks.\n\nMore."""' + PLAIN)
    write("room/attention/eager.py", PLAIN)
    write(
        "room/attention/sdpa.py",
        '''
        """Several backends."""
        import suite

        @suite.implementation(variant="math", requires=("json",), conventions={"causal": "lower_right"})
        def math(query, key, value, /, **options):
            """The formula."""

        @suite.implementation(variant="flash", lacks={"bool_mask": "the kernel " "takes none"})
        def flash(query, key, value, *, attn_mask=None): ...
        ''',
    )
    write("room/transformer/eager.py", PLAIN)
    write("room/attention/_helper.py", "raise SystemExit")
    return tmp_path / "room"


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """tmp_path on sys.path; what was imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]


def names(declarations: list[Declaration]) -> list[str]:
    return [declaration.full_name for declaration in declarations]


def complaint(*targets: str, contract: str | None = None, root: Path | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        _ = [load(declaration) for declaration in find(targets, contract, root=root)]
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What a room declares


def test_a_room_is_listed_in_order_without_its_helpers(room: Path) -> None:
    assert names(discover(room)) == [
        "attention/chunked",
        "attention/eager",
        "attention/sdpa.flash",
        "attention/sdpa.math",
        "transformer/eager",
    ]


def test_a_declaration_is_read_from_the_source(room: Path) -> None:
    chunked, _, flash, math, _ = found = discover(room)
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


def test_listing_the_shipped_room_imports_neither_torch_nor_an_implementation() -> None:
    program = (
        "import sys; from suite.registry import discover; found = discover(); "
        "print(*(d.full_name for d in found if not d.broken)); "
        "assert 'torch' not in sys.modules and not any(m.startswith('implementations.') for m in sys.modules)"
    )
    listed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {"attention/matmul", "attention/loops", "attention/torch_sdpa.flash"} <= set(listed.split())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def attention(:", "SyntaxError: invalid syntax (odd.py, line 1)"),
        ("x = '\0'", "SyntaxError"),
        ("x = 1", "decorates no function with @implementation"),
        (
            "def implementation(f): return f\n@implementation\ndef f(): ...",
            "decorates no function with @implementation",
        ),
        (
            "from suite import implementation\nLACKS = {}\n@implementation(lacks=LACKS)\ndef f(): ...",
            "line 3: lacks of @implementation is not a literal, so it cannot be read without an import",
        ),
        (
            "from suite import implementation as declare\n@declare(**{})\ndef f(): ...",
            "line 2: the arguments of @implementation have to be given by keyword, one by one",
        ),
        (
            "from suite import implementation\n@implementation(requires='jax')\ndef f(): ...",
            "line 2: requires is a list of the names of libraries, not 'jax'",
        ),
        (
            "from suite import implementation\n@implementation(needs=['jax'])\ndef f(): ...",
            "line 2: @implementation got an unexpected keyword argument 'needs'",
        ),
        (
            "from suite import implementation\n@implementation\ndef f(): ...\n@implementation\ndef g(): ...",
            "lines 3 and 5 declare the same name",
        ),
    ],
)
def test_what_cannot_be_read_stands_in_the_list_with_the_reason(write: Write, text: str, reason: str) -> None:
    root = write("room/attention/odd.py", text).parent.parent
    (declaration,) = discover(root)
    assert declaration.full_name == "attention/odd"
    assert declaration.broken.startswith(reason)
    loaded = load(declaration)
    assert isinstance(loaded, Broken)
    assert loaded.reason == declaration.broken


def test_the_decorator_refuses_what_the_reader_refuses() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'needs'"):
        implementation(needs=["jax"])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="a list of the names of libraries"):
        implementation(requires="jax")
    with pytest.raises(TypeError, match="a reason for each feature"):
        implementation(lacks={"causal": ""})


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
    assert "did you mean attention?" in found["attention/gone.function"].broken
    assert "third" not in sys.modules


def test_an_entry_point_that_takes_a_shipped_name_does_not_hide_it(importable: Path, write: Write) -> None:
    write("third.py", PLAIN)
    write("third-1.0.dist-info/entry_points.txt", "[attnsuite.implementations]\nattention/matmul = third:attention\n")
    write("third-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: third\nVersion: 1.0\n")
    assert {"attention/matmul", "attention/matmul@third"} <= set(names(discover()))


# Targets


def test_no_target_means_all(room: Path) -> None:
    assert find(root=room) == discover(room)
    assert names(find((), "transformer", root=room)) == ["transformer/eager"]


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("attention/chunked", ["attention/chunked"]),
        ("chunked", ["attention/chunked"]),
        ("sdpa", ["attention/sdpa.flash", "attention/sdpa.math"]),
        ("attention/sdpa", ["attention/sdpa.flash", "attention/sdpa.math"]),
        ("sdpa.flash", ["attention/sdpa.flash"]),
        ("transformer/*", ["transformer/eager"]),
        ("sdpa.*", ["attention/sdpa.flash", "attention/sdpa.math"]),
    ],
)
def test_a_name_means(room: Path, target: str, meant: list[str]) -> None:
    assert names(find([target], root=room)) == meant


def test_a_target_named_twice_is_found_once(room: Path) -> None:
    assert names(find(["sdpa.math", "sdpa", str(room / "attention" / "sdpa.py")], root=room)) == [
        "attention/sdpa.math",
        "attention/sdpa.flash",
    ]


def test_a_contract_makes_a_short_name_clear(room: Path) -> None:
    assert names(find(["eager"], "transformer", root=room)) == ["transformer/eager"]


def test_a_file_without_decorators_means_its_only_or_its_aptly_named_function(write: Write) -> None:
    only = write("kernel.py", "import math\ndef _helper(): ...\ndef forward(query, key, value): ...")
    apt = write("kernels.py", "def attention(query, key, value): ...\ndef other(): ...")
    (declaration,) = find([str(only)])
    assert (declaration.full_name, declaration.function) == ("attention/kernel", "forward")
    assert find([str(apt)])[0].function == "attention"


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
    other = next((name for name in registry.contracts() if name != "attention"), None)
    if other:
        assert find([file], other)[0].contract == other


def test_a_function_in_a_module_is_found_without_importing_it(importable: Path, write: Write) -> None:
    write("outer/__init__.py", "raise SystemExit")
    write("outer/inner.py", "def forward(query, key, value, *, scale=None): ...")
    (declaration,) = find(["outer.inner:forward"])
    assert declaration.full_name == "attention/forward"
    assert declaration.parameters == ("query", "key", "value", "scale")
    assert "outer" not in sys.modules


def test_a_module_in_the_current_folder_is_found(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("mine_here.py", "def forward(query, key, value): return 'mine'")
    monkeypatch.chdir(tmp_path)
    loaded = load(find(["mine_here:forward"])[0])
    sys.modules.pop("mine_here")
    assert isinstance(loaded, Loaded)
    assert loaded.function(1, 2, 3) == "mine"


def test_a_module_that_is_made_by_importing_another_is_found() -> None:
    loaded = load(find(["os.path:join"])[0])
    assert isinstance(loaded, Loaded)
    assert loaded.function is os.path.join


# Every usage error, one line each


def test_an_unknown_name_gets_its_likely_meaning_and_what_exists(room: Path) -> None:
    assert complaint("chuncked", root=room) == "unknown target 'chuncked': did you mean attention/chunked?"
    assert complaint("attention", root=room) == "unknown target 'attention': did you mean attention/*?"
    assert complaint("zzz*", root=room) == (
        "unknown target 'zzz*': of attention there are attention/chunked, attention/eager, attention/sdpa.flash, "
        "attention/sdpa.math"
    )
    assert complaint("zzz", "transformer/zz", contract="transformer", root=room) == (
        "unknown target 'zzz': of transformer there are transformer/eager"
    )
    assert complaint("sdpa", contract="transformer", root=room) == (
        "target 'sdpa' is an implementation of attention, not of transformer"
    )


def test_no_more_than_a_dozen_names_are_listed(room: Path) -> None:
    for number in range(20):
        (room / "transformer" / f"kind{number}.py").write_text(PLAIN)

    message = complaint("zzz", contract="transformer", root=room)

    assert message.count("transformer/") == 12
    assert message.endswith(" and 9 more")


def test_a_name_alone_is_an_attention_s_where_there_is_one(room: Path) -> None:
    assert names(find(["eager"], root=room)) == ["attention/eager"]


def test_an_ambiguous_name_is_not_guessed(room: Path) -> None:
    for contract in ("transformer", "vision_transformer"):
        (room / contract).mkdir(exist_ok=True)
        (room / contract / "other.py").write_text((room / "transformer" / "eager.py").read_text())

    assert complaint("other", root=room) == "target 'other' is ambiguous: transformer/other or vision_transformer/other"


def test_an_unknown_contract_gets_those_that_exist(room: Path) -> None:
    message = complaint("eager", contract="attenton", root=room)
    assert message.startswith("unknown contract 'attenton': there are add_norm, ")


def test_mistakes_about_files_are_named(write: Write) -> None:
    two = write("kernel.py", "def one(): ...\ndef two(): ...\nthree = 3")
    folder = two.parent
    note = write("note.txt", "")
    empty = write("empty.py", "")
    assert complaint(f"{folder}/kernal.py") == f"no file '{folder}/kernal.py': did you mean {two}?"
    assert complaint(f"{folder}/zzz.py:one") == f"no file '{folder}/zzz.py'"
    assert complaint(str(note)) == f"'{note}' is not a Python file (.py)"
    assert complaint(f"{note}:one") == f"'{note}' is not a Python file (.py)"
    assert complaint(str(folder)) == f"'{folder}' is not a Python file (.py)"
    assert complaint(f"{two}:tow") == "kernel.py has no function 'tow': did you mean two? it has one, two"
    assert complaint(f"{two}:three") == "'three' in kernel.py cannot be called: it is of type int"
    assert complaint(f"{two}:") == f"target '{two}:': a colon stands between a file or module and a function in it"
    assert complaint(str(two)) == (
        "kernel.py decorates no function with @implementation and has one, two: name one, as kernel.py:one"
    )
    assert complaint(str(empty)) == "empty.py decorates no function with @implementation and has no public function"


def test_mistakes_about_modules_are_named() -> None:
    assert complaint("nosuchmodule:f") == "No module named 'nosuchmodule'"
    assert complaint("json.nosuchmodule:f") == "No module named 'json.nosuchmodule'"
    assert complaint("no such:f") == "'no such' is neither a file (.py) nor the name of a module"
    assert complaint("json.decoder:scaner") == (
        "decoder.py has no function 'scaner': it has py_scanstring, JSONObject, JSONArray"
    )
    assert complaint("json.decoder:NaN") == "'NaN' in decoder.py cannot be called: it is of type float"
    assert complaint("os.path:jion") == "os.path has no function 'jion'"


def test_a_name_that_only_the_import_can_deny_is_denied_then(write: Write) -> None:
    file = write("kernel.py", "globals()['made'] = print")
    assert complaint(f"{file}:absent") == "kernel.py has no function 'absent'"
    assert isinstance(load(find([f"{file}:made"])[0]), Loaded)


def test_two_files_of_one_name_are_not_mixed_up(write: Write) -> None:
    one, two = write("a/kernel.py", PLAIN), write("b/kernel.py", PLAIN)
    assert complaint(str(one), str(two)) == (
        f"two targets are called attention/kernel: {one}:attention and {two}:attention; ask them one by one"
    )


# Loading


def loaded(file: Path) -> Loaded | Missing | Broken:
    (declaration,) = find([str(file)])
    return load(declaration)


def test_a_missing_library_is_missing(write: Write) -> None:
    file = write(
        "k.py", "from suite import implementation\n@implementation(requires=['json', 'nosuch.lib'])\ndef f(): ..."
    )
    result = loaded(file)
    assert isinstance(result, Missing)
    assert result.reason == "No module named 'nosuch.lib'"
    assert (result.status, str(result)) == ("missing", "No module named 'nosuch.lib'")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nosuch", "ModuleNotFoundError: No module named 'nosuch'"),
        ("1/0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
        ("import pytest; pytest.skip('no', allow_module_level=True)", "Skipped: no"),
        ("class E(Exception):\n    def __str__(self): raise self\nraise E", "E: (its message cannot be printed)"),
    ],
)
def test_an_import_that_raises_is_broken(write: Write, text: str, reason: str) -> None:
    before = {name for name in sys.modules if name.startswith("attnsuite_file")}
    result = loaded(write("kernel.py", f"def attention(query, key, value): ...\n{text}"))
    assert isinstance(result, Broken)
    assert result.reason == reason
    assert {name for name in sys.modules if name.startswith("attnsuite_file")} == before


def test_an_interrupted_import_is_interrupted(write: Write) -> None:
    with pytest.raises(KeyboardInterrupt):
        loaded(write("kernel.py", "def attention(): ...\nraise KeyboardInterrupt"))


def test_what_an_import_prints_is_kept(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    file = write(
        "kernel.py",
        """
        import ctypes, logging, os, sys, warnings
        print("by Python")
        print("as a complaint", file=sys.stderr)
        os.write(1, b"below Python\\n")
        ctypes.CDLL(None).puts(b"by C")
        warnings.warn("beware")
        handler = logging.StreamHandler()
        def attention(query, key, value):
            handler.stream.write("later")
            print("now")
        """,
    )
    result = loaded(file)
    assert capfd.readouterr() == ("", "")
    assert isinstance(result, Loaded)
    assert sorted(result.printed.split("\n")) == ["", "as a complaint", "below Python", "by C", "by Python"]
    result.function(1, 2, 3)
    assert capfd.readouterr() == ("now\n", "later")


@pytest.mark.parametrize("said", [None, "0"])
def test_onnxruntime_tells_its_makers_nothing_unless_the_user_lets_it(
    write: Write, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", said or "")
    if said is None:
        monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    file = write(
        "kernel.py",
        """
        import os
        seen = os.environ["ORT_DISABLE_TELEMETRY"]
        def attention(query, key, value):
            return seen
        """,
    )

    result = loaded(file)

    assert isinstance(result, Loaded)
    assert result.function(1, 2, 3) == (said or "1")


def test_what_an_import_changes_in_the_process_is_undone(write: Write, tmp_path: Path) -> None:
    file = write(
        "kernel.py",
        f"""
        import os, random, sys, warnings
        import numpy, torch
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.set_grad_enabled(False)
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        os.chdir({str(tmp_path)!r})
        sys.path.insert(0, "nowhere")
        sys.stdout = None
        warnings.simplefilter("ignore")
        def attention(query, key, value): ...
        """,
    )

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
    assert isinstance(loaded(file), Loaded)
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
    assert isinstance(loaded(write("other.py", "import wave\ndef attention(): ...")), Loaded)


def test_a_file_is_run_once_for_all_its_functions_and_again_when_it_changed(write: Write) -> None:
    text = "def attention(): return {}\ndef other(): ..."
    file = write("kernel.py", text.format(1))
    one, other = (load(find([f"{file}:{name}"])[0]) for name in ("attention", "other"))
    assert isinstance(one, Loaded)
    assert isinstance(other, Loaded)
    assert one.function.__globals__ is other.function.__globals__
    file.write_text(text.format(2))
    changed = loaded(file)
    assert isinstance(changed, Loaded)
    assert changed.function() == 2
    assert not list(file.parent.rglob("__pycache__"))


def test_parameters_come_from_the_function_where_the_source_does_not_tell(write: Write) -> None:
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
    assert bound.declaration.parameters == ("value", "scale", "unused")
    assert builtin.declaration.parameters is None, "no signature: it takes everything"


def test_declarations_made_at_import_are_known_when_loaded(importable: Path, write: Write) -> None:
    write("home.py", "from suite import implementation\n@implementation(lacks={'gqa': 'no'})\ndef f(query): ...")
    write("facade.py", "from home import f as attention")
    (declaration,) = find(["facade:attention"])
    assert load(declaration).declaration.lacks == {"gqa": "no"}


def test_every_shipped_implementation_is_loaded_or_missing() -> None:
    for declaration in discover():
        if declaration.module.startswith("implementations."):
            assert isinstance(load(declaration), Loaded | Missing), declaration.full_name


@pytest.mark.parametrize("folder", ["site-packages", "mine"])
def test_of_what_is_installed_beside_it_a_source_hash_follows_its_own_package_alone(write: Write, folder: str) -> None:
    text = "from implementations.blocks import norm\nfrom library.functional import relu\nimport single"
    file = write(f"{folder}/implementations/attention/mine.py", text)
    imported = ("implementations/blocks", "library/functional", "single")
    for name in imported:
        write(f"{folder}/{name}.py", "")
    hashes = [registry.source_hash(Declaration("attention", "mine", "f", file=str(file)))]

    for name in imported:
        write(f"{folder}/{name}.py", f"changed = {name!r}")
        hashes.append(registry.source_hash(Declaration("attention", "mine", "f", file=str(file))))

    assert len(set(hashes)) == (4 if folder == "mine" else 2)
    assert hashes[0] != hashes[1]


def test_a_source_hash_follows_the_file(write: Write) -> None:
    file = write("kernel.py", PLAIN)
    (declaration,) = find([str(file)])
    before = registry.source_hash(declaration)
    assert len(before) == 12
    file.write_text(file.read_text() + "# changed\n")
    assert registry.source_hash(declaration) != before
    assert registry.source_hash(Declaration("attention", "x", "f")) == ""


# Functions at hand


def at_module_level(query: object, key: object, value: object, *, scale: float | None = None) -> None: ...


def test_a_function_at_hand_becomes_an_implementation() -> None:
    found = registry.from_function(at_module_level)
    assert found.declaration.full_name == "attention/at_module_level"
    assert found.declaration.parameters == ("query", "key", "value", "scale")
    again = load(found.declaration)
    assert isinstance(again, Loaded), "a worker can import it"


@pytest.mark.parametrize("function", [lambda query: query, partial(at_module_level, scale=1.0)])
def test_a_function_that_nobody_can_import_has_no_home(function: Callable[..., object]) -> None:
    declaration = registry.from_function(function, "transformer").declaration
    assert (declaration.contract, declaration.module, declaration.file) == ("transformer", "", "")


def test_a_decorated_function_at_hand_keeps_its_declaration() -> None:
    @implementation(variant="mine", lacks={"gqa": "no"})
    def function(query: object) -> None: ...

    declaration = registry.from_function(function).declaration
    assert declaration.lacks == {"gqa": "no"}
