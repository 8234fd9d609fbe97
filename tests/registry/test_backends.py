"""Combinations with a backend: found, loaded, run in either process, and judged inside."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import case_named

from attnsuite import registry
from attnsuite.conformance.request import requested
from attnsuite.conformance.session import Session
from attnsuite.model import FAILURES, UsageError
from attnsuite.registry import Broken, Declaration, Loaded, Missing
from attnsuite.registry.backends import takes_backend, with_backend
from attnsuite.worker.calling import run_calls
from attnsuite.worker.worker import Worker

Write = Callable[[str, str], Path]

HOST = Declaration("transformer", "eager", "transformer", "attnsuite.implementations.transformer.eager",
                   parameters=("config", "weights", "attention"), lacks={"cached": "no"})  # fmt: skip
BACKEND = Declaration("attention", "mine", "attention", file="/mine.py", parameters=None)
UNSCALED = '''
"""The scores are not divided."""
import math, torch

def attention(query, key, value, *, attn_mask=None, is_causal=False):
    scores = query @ key.mT
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    return scores.softmax(-1) @ value
'''


def find(target: str) -> Declaration:
    (found,) = registry.find([target])
    return found


def test_every_attention_is_a_backend_of_every_host() -> None:
    registered = registry.discover()
    hosts = [each for each in registered if takes_backend(each)]
    attentions = [each for each in registered if each.contract == "attention"]

    names = {each.full_name for each in registered if each.backend is not None}

    assert {each.full_name for each in hosts} >= {"transformer/eager", "vision_transformer/eager"}
    assert names == {f"{host.full_name}+{backend.name}" for host in hosts for backend in attentions}


def test_a_combination_lacks_what_its_backend_lacks_and_other_conventions() -> None:
    lacks = {"float16": "too short", "gqa": "one head each"}
    conventions = {"bool_mask": "may_not", "causal": "upper_left"}
    found = with_backend(HOST, replace(BACKEND, lacks=lacks, parameters=("attn_mask",), conventions=conventions))

    assert found.lacks == {
        "cached": "no",
        "float16": "attention/mine: too short",
        "causal": "attention/mine takes no is_causal",
        "bool_mask": "the convention bool_mask of attention/mine is may_not",
    }
    assert found.full_name == "transformer/eager+mine"
    assert found.parameters == ("config", "weights", "attention")


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({"broken": "SyntaxError: invalid syntax"}, Broken, "SyntaxError: invalid syntax"),
        ({"requires": ("nosuchlibrary",)}, Missing, "No module named 'nosuchlibrary'"),
    ],
)
def test_a_combination_is_as_broken_and_as_missing_as_its_backend(
    changes: dict[str, Any], kind: type[Broken] | type[Missing], reason: str
) -> None:
    found = registry.load(with_backend(HOST, replace(BACKEND, **changes)))

    assert isinstance(found, kind)
    assert (found.declaration.full_name, found.reason) == ("transformer/eager+mine", reason)


def test_a_backend_that_cannot_be_imported_breaks_the_combination(write: Write) -> None:
    file = write("mine.py", "import nosuchmodule\ndef attention(query, key, value): ...")

    found = registry.load(find(f"transformer/eager+{file}"))

    assert isinstance(found, Broken)
    assert found.reason == "ModuleNotFoundError: No module named 'nosuchmodule' (mine.py, line 1)"


@pytest.mark.parametrize("backend", ["attention/chunked", "chunked", "mine.py", "mine.py:attention", "mine:attention"])
@pytest.mark.parametrize("host", ["transformer/eager", "model.py", "model.py:transformer", "model:transformer"])
def test_every_form_of_a_target_takes_every_form_of_a_backend(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, backend: str
) -> None:
    write("model.py", "def transformer(config, weights, *, attention=None): ...")
    write("mine.py", UNSCALED)
    monkeypatch.chdir(tmp_path)

    (found,) = registry.find([f"{host}+{backend}"], "transformer")

    names = ["eager" if host == "transformer/eager" else "model", "chunked" if "chunked" in backend else "mine"]
    assert found.full_name == f"transformer/{'+'.join(names)}"
    assert found.function == "transformer"
    assert found.backend is not None
    assert found.backend.full_name == f"attention/{names[1]}"


@pytest.mark.parametrize("target", ["c++/model.py", "c++/model.py:transformer", "a+b.py", "a+b.py:transformer"])
def test_a_plus_may_stand_in_a_path(write: Write, tmp_path: Path, target: str) -> None:
    for name in ("c++/model.py", "a+b.py"):
        write(name, "def transformer(config, weights, *, attention=None): ...")
    backend = write("c++/mine.py", UNSCALED)

    (alone,) = registry.find([f"{tmp_path}/{target}"], "transformer")
    (both,) = registry.find([f"{tmp_path}/{target}+{backend}"], "transformer")

    assert both.full_name == f"{alone.full_name}+mine"


@pytest.mark.parametrize("text", ["def model(config, **options): ...", "def made(**options): ...\nmodel = made"])
def test_what_only_an_import_or_a_call_can_tell_is_left_to_it(write: Write, text: str) -> None:
    file = write("models.py", text)

    (found,) = registry.find([f"{file}:model+chunked"], "transformer")

    assert found.parameters is None
    assert isinstance(registry.load(found), Loaded)


def test_backends_of_one_name_are_not_mixed_up(write: Write) -> None:
    one, two = write("a/mine.py", UNSCALED), write("b/mine.py", UNSCALED)

    with pytest.raises(UsageError, match=f"two targets are called transformer/eager.mine: .*{one}.* and .*{two}"):
        registry.find([f"transformer/eager+{one}", f"transformer/eager+{two}"])


def test_a_backend_that_crashes_is_an_outcome(write: Write) -> None:
    file = write("mine.py", "import ctypes\ndef attention(query, key, value, **options): ctypes.string_at(0)")

    found = Session(requested("plain/usual", torch.float32, "cpu")).outcomes(find(f"transformer/eager+{file}"))

    assert [outcome.detail for outcome in found] == ["crashed: SIGSEGV"]


def test_the_backend_is_called_in_either_process(write: Write) -> None:
    file = write("mine.py", "def attention(query, key, value, **options): raise ArithmeticError('here I am')")
    case = case_named("transformer", "plain/usual")
    calls = case.calls("float32")
    declaration = find(f"transformer/eager+{file}")

    loaded = registry.load(declaration)
    assert isinstance(loaded, Loaded)
    assert run_calls(loaded.function, calls)[0].error == "ArithmeticError: here I am (mine.py, line 1)"
    with Worker(declaration) as worker:
        replies = worker.run_calls(calls)
    assert isinstance(replies, tuple)
    assert replies[0].error == "ArithmeticError: here I am (mine.py, line 1)"


@pytest.mark.parametrize("host", ["transformer/eager", "vision_transformer/eager"])
def test_a_wrong_attention_is_found_inside_a_model_and_named(write: Write, host: str) -> None:
    declaration = find(f"{host}+{write('mine.py', UNSCALED)}")

    found = Session(requested("plain/usual", torch.float32, "cpu"), keep_inputs=False).outcomes(declaration)

    assert [outcome.status in FAILURES for outcome in found] == [True]
    assert found[0].detail.startswith('equals "unscaled"')


def test_what_a_file_imports_from_around_it_counts(write: Write) -> None:
    file = write(
        "room/mine.py", "import suite, torch, json\nfrom helper import scale\nfrom deep.more import x\n" + UNSCALED
    )
    helper = write("room/helper.py", "from . import other\nscale = 1\n")
    others = [write("room/other.py", "y = 1"), write("room/deep/more.py", "x = 1"), write("room/unused.py", "z = 1")]

    def hashed() -> str:
        return registry.source_hash(find(str(file)))

    seen = [hashed()]
    for each in (helper, *others):
        each.write_text(each.read_text() + "\n# changed")
        seen.append(hashed())

    assert len(set(seen[:4])) == 4
    assert seen[4] == seen[3], "nobody imports it"


def test_the_source_of_both_counts(write: Write) -> None:
    file = write("mine.py", UNSCALED)
    before = registry.source_hash(find(f"transformer/eager+{file}"))
    file.write_text(UNSCALED + "\n")

    after = registry.source_hash(find(f"transformer/eager+{file}"))

    assert len({before, after, registry.source_hash(find("transformer/eager"))}) == 3


IGNORES = """
from attnsuite.implementations.transformer import eager

def transformer(config, weights, *, attention=None):
    return eager.transformer(config, weights)
"""


@pytest.mark.parametrize("case", ["plug/called", "cached/plugged"])
def test_a_model_that_ignores_its_backend_fails(write: Write, case: str) -> None:
    hosts = {"transformer/eager": "passed", write("ignores.py", IGNORES): "failed"}

    for host, status in hosts.items():
        (declaration,) = registry.find([f"{host}+chunked"], "transformer")
        found = Session(requested(case, torch.float32, "cpu"), keep_inputs=False).outcomes(declaration)
        assert [outcome.status for outcome in found] == [status], host
        assert status == "passed" or 'equals "ignores_the_plug"' in found[0].detail
