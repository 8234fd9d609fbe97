"""The command that is printed below a failure repeats exactly that test, for every kind of target."""

import shlex
from pathlib import Path

import pytest
from commanded import Cli, Result, Write

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
NARROW = "--case plain/usual --dtype float32"


@pytest.fixture
def mine(write: Write) -> None:
    """Files of one's own, each with a mistake."""
    for place in ("mine.py", "c++/mine.py"):
        write(place, MODEL)
    for place in ("zeros.py", "chunked.py"):  # one is called like what ships here
        write(place, ZEROS)


def printed(result: Result) -> list[str]:
    """The one command that a check printed, as the words after `attnsuite`."""
    (line,) = [line for line in result.lines if line.startswith("      attnsuite ")]
    return shlex.split(line)[1:]


@pytest.mark.parametrize(
    "command",
    [
        "chunked.py --case plain/small --dtype float32",
        f"mine.py {NARROW}",
        f"mine.py:transformer {NARROW}",
        f"mine:transformer --contract transformer {NARROW} --isolate --time-limit 20",
        f"c++/mine.py:transformer+zeros:attention --contract transformer {NARROW} --device cpu",
        f"mine.py+chunked --contract transformer {NARROW}",
        f"transformer/eager+chunked.py {NARROW}",
    ],
)
@pytest.mark.usefixtures("mine")
def test_the_printed_command_repeats_the_test(cli: Cli, command: str) -> None:
    result = cli("check", *command.split())

    assert result.status == 1
    assert f"0 of 1 passed, 1 {'failed' if 'plain/small' in command else 'error'}" in result.out
    again = printed(result)
    assert "--contract" not in again, "the function's name says it"
    assert cli(*again) == result


@pytest.mark.slow
def test_a_failed_import_is_repeated_with_all_options(cli: Cli, write: Write, tmp_path: Path) -> None:
    file = write("bad.py", "1/0\ndef attention(query, key, value): ...")
    options = ["--case", "plain", "--case", "causal/*", "--dtype", "float32"]

    result = cli("check", "bad.py", *options, "--time-limit", "7", "--junit", "out.xml", "--results", "out")

    words = ["check", str(file), "--time-limit", "7", *options]
    assert result.status == 1
    assert printed(result) == words
    assert shlex.join(["attnsuite", *words]) in (tmp_path / "out.xml").read_text()
