"""An attention plugged into what takes one: found, loaded, asked in either process, and judged inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from suite import registry
from suite.checking import Session, requested
from suite.contracts import contract
from suite.records import FAILURES, UsageError
from suite.registry import Broken, Declaration, Loaded, Missing
from suite.registry.plugging import plugged, takes_plug
from suite.worker import Worker, ask

Write = Callable[[str, str], Path]

HOST = Declaration("transformer", "eager", "transformer", "implementations.transformer.eager",
                   parameters=("config", "weights", "attention"), lacks={"cached": "no"})  # fmt: skip
PLUG = Declaration("attention", "mine", "attention", file="/mine.py", parameters=None)
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


def test_every_attention_is_plugged_into_whatever_takes_one() -> None:
    registered = registry.discover()
    hosts = [each for each in registered if takes_plug(each)]
    attentions = [each for each in registered if each.contract == "attention"]

    names = {each.full_name for each in registered if each.plug is not None}

    assert {each.full_name for each in hosts} >= {"transformer/eager", "vision_transformer/eager"}
    assert names == {f"{host.full_name}+{plug.name}" for host in hosts for plug in attentions}


def test_what_the_attention_lacks_the_whole_lacks_where_the_contract_has_a_word_for_it() -> None:
    plug = replace(PLUG, lacks={"float16": "too short", "gqa": "one head each"}, parameters=("attn_mask",))

    found = plugged(HOST, plug)

    assert found.lacks == {
        "cached": "no",
        "float16": "attention/mine: too short",
        "causal": "attention/mine takes no is_causal",
    }
    assert found.full_name == "transformer/eager+mine"
    assert found.parameters == ("config", "weights")


@pytest.mark.parametrize("convention", [{"bool_mask": "may_not"}, {"causal": "lower_right"}])
def test_another_convention_is_a_gap(convention: dict[str, str]) -> None:
    (name,) = convention

    found = plugged(HOST, replace(PLUG, conventions=convention))

    assert found.lacks[name] == f"the convention {name} of attention/mine is {convention[name]}"
    assert plugged(HOST, replace(PLUG, conventions={"bool_mask": "may_attend"})).lacks == HOST.lacks


def test_a_broken_attention_breaks_the_whole() -> None:
    found = registry.load(plugged(HOST, replace(PLUG, broken="SyntaxError: invalid syntax")))

    assert isinstance(found, Broken)
    assert found.reason == "SyntaxError: invalid syntax"


def test_a_missing_library_of_the_attention_is_missing_from_the_whole() -> None:
    found = registry.load(plugged(HOST, replace(PLUG, requires=("nosuchlibrary",))))

    assert isinstance(found, Missing)
    assert found.declaration.full_name == "transformer/eager+mine"


def test_an_attention_that_cannot_be_imported_breaks_the_whole(write: Write) -> None:
    file = write("mine.py", "import nosuchmodule\ndef attention(query, key, value): ...")

    found = registry.load(find(f"transformer/eager+{file}"))

    assert isinstance(found, Broken)
    assert found.reason == "ModuleNotFoundError: No module named 'nosuchmodule'"


def test_a_file_can_be_plugged_in_by_its_path(write: Write) -> None:
    file = write("mine.py", UNSCALED)

    assert find(f"transformer/eager+{file}").full_name == "transformer/eager+mine"
    assert find(f"vision_transformer/eager+{file}:attention").full_name == "vision_transformer/eager+mine"


@pytest.mark.parametrize("target", ["transformer/torch_nn+chunked", "transformer/eager+nosuch", "nosuch+chunked"])
def test_what_cannot_be_plugged_is_said(target: str) -> None:
    with pytest.raises(UsageError, match="unknown target"):
        registry.find([target])


def test_the_plugged_attention_is_the_one_that_is_called(write: Write) -> None:
    file = write("mine.py", "def attention(query, key, value, **options): raise ArithmeticError('here I am')")
    case = next(case for case in contract("transformer").cases() if case.name == "plain/usual")
    calls = case.calls("float32")
    declaration = find(f"transformer/eager+{file}")

    loaded = registry.load(declaration)
    assert isinstance(loaded, Loaded)
    assert ask(loaded.function, calls)[0].raised == "ArithmeticError: here I am"
    with Worker(declaration) as worker:
        replies = worker.ask(calls)
    assert isinstance(replies, tuple)
    assert replies[0].raised == "ArithmeticError: here I am"


@pytest.mark.parametrize("host", ["transformer/eager", "vision_transformer/eager"])
def test_a_wrong_attention_is_found_inside_a_model_and_named(write: Write, host: str) -> None:
    declaration = find(f"{host}+{write('mine.py', UNSCALED)}")

    found = list(Session(requested("plain/usual", torch.float32, "cpu"), several=False).run(declaration))

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
