"""The command that is printed below a failure: what it asks is what failed, for whatever could be asked."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from attnsuite.__main__ import main
from attnsuite.contracts import names

Write = Callable[[str, str], Path]
Command = Callable[..., tuple[object, str]]

MODEL = """
import attnsuite.implementations.transformer.eager as eager

def transformer(config, weights, *, attention=None):
    model = eager.transformer(config, weights, attention=attention)

    def raises(source, lengths, target=None):
        model(source, lengths, target)
        raise RuntimeError("not today")

    return raises
"""
"""It raises once it has called its attention: wrong numbers of a model take seconds to diagnose."""
ZEROS = """
def attention(query, key, value, *, attn_mask=None, is_causal=False):
    if attn_mask is not None:  # as in models
        raise RuntimeError("no masks")
    return query * 0
"""
ENTRY_POINTS = """
[attnsuite.implementations]
attention/zeros = theirs.zeros:attention
transformer/theirs = theirs.model:transformer
"""
NARROW = "--case plain/usual --dtype float32"


@pytest.fixture
def attnsuite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command in this process, in tmp_path: its exit status, and what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["attnsuite", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return end.value.code or 0, printed.out + printed.err

    return run


@pytest.fixture
def mine(write: Write) -> None:
    """Files of one's own, each with a mistake."""
    for place in ("mine.py", "c++/mine.py"):
        write(place, MODEL)
    for place in ("zeros.py", "chunked.py"):  # one is called like what ships here
        write(place, ZEROS)


@pytest.fixture
def installed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that registers a model and an attention, both wrong."""
    write("site/theirs/__init__.py", "")
    write("site/theirs/zeros.py", ZEROS)
    write("site/theirs/model.py", MODEL)
    write("site/theirs-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    site = write("site/theirs-1.0.dist-info/entry_points.txt", ENTRY_POINTS).parent.parent
    monkeypatch.syspath_prepend(str(site))


def printed(text: str) -> list[str]:
    """The one command that a check printed, as the words after `attnsuite`."""
    (line,) = [line for line in text.splitlines() if line.startswith("      attnsuite ")]
    return shlex.split(line)[1:]


@pytest.mark.parametrize(
    "asked",
    [
        "chunked.py --case plain/small --dtype float32",
        f"mine:transformer --contract transformer {NARROW} --isolate --time-limit 20",
        f"c++/mine.py:transformer+zeros:attention --contract transformer {NARROW} --device cpu",
        f"mine.py+chunked --contract transformer {NARROW}",
        f"transformer/eager+chunked.py {NARROW}",
    ],
)
@pytest.mark.usefixtures("mine")
def test_what_is_printed_asks_the_same_again(attnsuite: Command, asked: str) -> None:
    status, said = attnsuite("check", *asked.split())

    assert status == 1
    assert (
        f"0 of 1 passed, 1 {'wrong' if '--contract' not in asked and 'transformer' not in asked else 'raised'}" in said
    )
    assert attnsuite(*printed(said)) == (status, said)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("transformer/theirs", ["transformer/theirs"]),
        ("transformer/theirs+zeros", ["transformer/theirs+zeros"]),
        ("transformer/eager+attention/zeros", ["transformer/eager+zeros"]),
    ],
)
@pytest.mark.usefixtures("installed")
def test_what_is_registered_is_asked_again_by_its_name(attnsuite: Command, asked: str, words: list[str]) -> None:
    status, said = attnsuite("check", *asked.split(), *NARROW.split())

    again = printed(said)
    assert status == 1
    assert again[1:] == [*words, *NARROW.split()]
    assert attnsuite(*again) == (status, said)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.usefixtures("mine")
def test_the_device_is_asked_again(attnsuite: Command) -> None:
    status, said = attnsuite("check", "transformer/eager+zeros.py", *NARROW.split(), "--device", "cuda")

    assert printed(said)[-2:] == ["--device", "cuda"]
    assert attnsuite(*printed(said)) == (status, said)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("bad.py", "def attention(:"),
        ("bad.py:attention", "def attention(:"),
        (
            "bad.py",
            "from attnsuite import implementation\n@implementation\ndef f(): ...\n@implementation\ndef g(): ...",
        ),
        ("transformer/eager+bad.py", "def attention(:"),
        ("bad.py+chunked --contract transformer", "def attention(:"),
    ],
)
def test_what_is_broken_as_its_source_stands_is_refused(
    attnsuite: Command, write: Write, target: str, text: str
) -> None:
    write("bad.py", text)

    status, said = attnsuite("check", *target.split())

    assert status == 2
    assert said.startswith("attnsuite: ")
    assert "cannot be asked: " in said
    assert said.count("\n") == 1


def test_among_others_what_is_broken_is_a_row_with_the_command_that_asks_it_again(
    attnsuite: Command, write: Write
) -> None:
    file = write("bad.py", "def attention(:")

    status, said = attnsuite("check", "attention/loops", "bad.py", "--case", "plain/small", "--dtype", "float32")

    assert status == 1
    assert "attention/bad  0 of 1 passed, 1 raised" in said
    assert printed(said) == ["check", str(file), "--case", "plain/small", "--dtype", "float32"]


@pytest.mark.slow
def test_an_import_that_failed_is_asked_again_with_all_that_was_said(
    attnsuite: Command, write: Write, tmp_path: Path
) -> None:
    file = write("bad.py", "1/0\ndef attention(query, key, value): ...")
    asked = ["--case", "plain", "--case", "causal/*", "--dtype", "float32"]

    status, said = attnsuite("check", "bad.py", *asked, "--time-limit", "7", "--junit", "out.xml", "--results", "out")

    words = ["check", str(file), "--time-limit", "7", *asked]
    assert status == 1
    assert printed(said) == words
    assert shlex.join(["attnsuite", *words]) in (tmp_path / "out.xml").read_text()


def test_results_name_the_same_command(attnsuite: Command, write: Write, tmp_path: Path) -> None:
    file = write("mine.py", "1/0\ndef transformer(config, weights, *, attention=None): ...")

    status, said = attnsuite("run", "mine.py+chunked", "--contract", "transformer", "--results", "out")

    command = f"attnsuite check {file}+attention/chunked --strict"
    (page,) = (tmp_path / "out").glob("*/conformance.md")
    assert status == 1
    assert printed(said) == command.split()[1:]
    assert f"`{command}`" in page.read_text()


@pytest.mark.parametrize("target", ["mine.py", "mine.py:transformer"])
def test_a_function_called_as_another_contract_is_asked_as_that(attnsuite: Command, write: Write, target: str) -> None:
    write("mine.py", MODEL)

    status, said = attnsuite("check", target, "--case", "plain/usual", "--dtype", "float32")

    assert status == 1
    assert "transformer/mine" in said
    assert "RuntimeError: not today" in said
    command = next(line for line in said.splitlines() if line.strip().startswith("attnsuite check"))
    assert "mine.py" in command
    assert "--contract" not in command, "its name says it again"


def test_what_has_no_place_for_the_inputs_of_an_attention_is_one_line(attnsuite: Command, write: Write) -> None:
    write("mine.py", "1/0\ndef helper(a, *, key=None, value=None): ...")

    status, said = attnsuite("check", "mine.py")

    assert status == 2
    assert said.splitlines() == [
        "attnsuite: attention/mine cannot be asked: helper takes 1 argument by place, and an attention is given query, "
        f"key, value; what computes something else needs --contract: {', '.join(sorted(set(names()) - {'attention'}))}"
    ]


@pytest.mark.parametrize(
    "function",
    [
        "def layer_norm(x, weight, bias): ...",
        "def linear(input, weight, bias=None): ...",
        "class Scaled:\n    def __call__(self, x, gamma, beta): ...",
    ],
)
def test_what_has_the_parameters_of_another_layer_is_one_line(attnsuite: Command, write: Write, function: str) -> None:
    write("mine.py", f"1/0\n{function}")

    status, said = attnsuite("check", "mine.py")

    assert (status, said.count("\n")) == (2, 1)
    assert ", and an attention is given query, key, value; what computes something else needs --contract: add_" in said
    assert said.endswith("; an attention, --contract attention\n")


def test_what_is_no_attention_by_its_names_is_asked_where_the_user_says_so(attnsuite: Command, write: Write) -> None:
    write("mine.py", "from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
          "def layer(x, weight, bias): return sdpa(x, weight, bias)")  # fmt: skip

    options = "--case", "plain/small", "--dtype", "float32"
    status, said = attnsuite("check", "mine.py", "--contract", "attention", *options)

    lines = ["attention/mine is mine.py:layer; the file binds no attention", "attention/mine  1 of 1 passed"]
    assert (status, said.splitlines()[:2]) == (0, lines)


@pytest.mark.parametrize(
    ("function", "taken"),
    [
        ("def fast(a, b, c)", True),
        ("def forward(tensor, memory, other)", True),
        ("def fast(q, k, v)", False),
        ("def fast(Q, K, V)", False),
        ("def fast(xq, xk, xv)", False),
        ("def fast(query_states, key_states, value_states)", False),
        ("def fast(x, keys, bias)", False),
        ("def fast(inputs, k_cache, v_cache)", False),
        ("def my_attention(a, b, c)", False),
        ("def attn_fwd(x, weight, bias)", False),
    ],
)
def test_what_its_names_do_not_tell_is_asked_and_what_was_assumed_is_said(
    attnsuite: Command, write: Write, function: str, taken: bool
) -> None:
    inputs = function.partition("(")[2].rstrip(")")
    write("mine.py", f"from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
          f"{function}: return sdpa({inputs})")  # fmt: skip

    status, said = attnsuite("check", "mine.py", "--case", "plain/small", "--dtype", "float32")

    assumed = f"attention/mine is taken for an attention, whose query, key, value are its {inputs}; what computes "
    assert status == 0, said
    first = said.splitlines()[0]
    assert first.startswith(
        f"attention/mine is mine.py:{function.split()[1].partition('(')[0]}; the file binds no attention"
    )
    assert (assumed in first) == taken


PLACES = {
    "any number": "def odd(*inputs): return sdpa(*inputs)",
    "some, and any number": "def odd(query, *inputs): return sdpa(query, *inputs)",
    "by place alone": "def odd(query, key, value, /): return sdpa(query, key, value)",
    "another decorator": "@lambda of: sdpa\ndef odd(query): ...",
    "instances": "class Odd:\n    def __call__(self, query, key, value): return sdpa(query, key, value)",
}


@pytest.mark.parametrize("function", PLACES.values(), ids=PLACES)
def test_what_may_have_a_place_for_them_is_asked(attnsuite: Command, write: Write, function: str) -> None:
    write("mine.py", f"from torch.nn.functional import scaled_dot_product_attention as sdpa\n{function}")

    status, said = attnsuite("check", "mine.py", "--case", "plain/small", "--dtype", "float32")

    assert status == 0, said


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ("mask=None, causal=False", "rename mask to attn_mask and causal to is_causal where it means the same; cases"),
        (
            "mask=None",
            "rename mask to attn_mask where it means the same, or say --signature jax or mlx where it",
        ),
        (
            "attn_mask=None, is_causual=False",
            "mine takes is_causual, which attention does not know: rename is_causual to is_causal where",
        ),
        ("attn_mask=None, block=3", ""),
        ("**others", ""),
    ],
)
def test_a_parameter_that_is_nearly_called_as_due_is_remarked_on(
    attnsuite: Command, write: Write, parameters: str, says: str
) -> None:
    write("mine.py", f"def mine(query, key, value, {parameters}): return query")

    _, said = attnsuite("check", "mine.py", "--case", "plain/small", "--dtype", "float32")

    assert says in said
    assert said.count("does not know: rename") == bool(says), "once"
