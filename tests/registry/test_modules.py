"""Modules with weights of their own: the roles of parameters, arguments and inputs, and what is refused."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import attnsuite
from attnsuite.model import Status, UsageError
from attnsuite.registry import find, load, weights_in

Write = Callable[[str, str], Path]

MODULE = """
import torch
from torch import nn


def _attended(query, key, value, number):
    q, k, v = (each.unflatten(-1, (number, -1)).transpose(1, 2) for each in (query, key, value))
    weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
    return (weights @ v).transpose(1, 2).flatten(2)


class Mine(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        {projections} = (nn.Linear(width, width) for _ in range(4))

    def forward(self, {inputs}):
        return {output}
"""
SELF = {
    "projections": "self.W_q, self.W_k, self.W_v, self.W_o",
    "inputs": "x",
    "output": "self.W_o(_attended(self.W_q(x), self.W_k(x), self.W_v(x), self.heads))",
}
MODULES = {
    "torch": "from torch.nn import MultiheadAttention\nattention = MultiheadAttention(8, 2)\n",
    "three inputs": MODULE.format(
        projections="self.to_q, self.to_k, self.to_v, self.to_out",
        inputs="query, key, value, mask=None",
        output="self.to_out(_attended(self.to_q(query), self.to_k(key), self.to_v(value), self.heads))",
    ),
    "another order": MODULE.format(
        projections="self.key, self.query, self.value, self.proj",
        inputs="query, key, value",
        output="self.proj(_attended(self.query(query), self.key(key), self.value(value), self.heads))",
    ),
    "names that do not tell": MODULE.format(
        projections="self.a, self.b, self.c, self.d",
        inputs="query, key, value",
        output="self.d(_attended(self.a(query), self.b(key), self.c(value), self.heads))",
    ),
    "one input": MODULE.format(**SELF),
    "one matrix": MODULE.format(
        projections="self.c_attn, self.c_proj",
        inputs="x",
        output="self.c_proj(_attended(*self.c_attn(x).chunk(3, -1), self.heads))",
    ).replace("(nn.Linear(width, width) for _ in range(4))", "nn.Linear(width, 3 * width), nn.Linear(width, width)"),
}


def module(source: str, name: str = "Mine") -> type[nn.Module]:
    """The class of a source."""
    space: dict[str, type[nn.Module]] = {}
    exec(source, space)
    return space[name]


def conversion(write: Write, source: str, target: str = "Mine", weights: str = "") -> str:
    """The line about a module of a file."""
    (declaration,) = find([f"{write('kernel.py', source)}:{target}"], "multi_head_attention")
    if weights:
        object.__setattr__(declaration, "weights", weights_in(weights))
    return load(declaration).declaration.conversion


@pytest.mark.parametrize("source", MODULES.values(), ids=MODULES)
def test_a_module_passes_as_it_is(source: str) -> None:
    made = module(source, "attention" if "attention =" in source else "Mine")
    said = attnsuite.check(made, cases=("plain/one_sequence", "heads/one_sequence", "heads/one_item"), dtypes="float32")

    assert {each.status for each in said} == {Status.PASSED}


def test_inputs_of_several_widths_are_unsupported_by_one_matrix() -> None:
    (said,) = attnsuite.check(nn.MultiheadAttention, cases="heads/many_causal", dtypes="float32")

    assert (said.status, said.detail[:26]) == (Status.UNSUPPORTED, "the module has one matrix ")


GPT = """
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head = config.n_head
        self.drop = nn.Dropout(config.dropout)
        self.register_buffer("seen", torch.ones(config.block_size, config.block_size).tril()[None, None])

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for each in self.c_attn(x).chunk(3, -1))
        scores = (q @ k.mT) / k.shape[-1] ** 0.5
        scores = scores.masked_fill(self.seen[:, :, : x.shape[1], : x.shape[1]] == 0, float("-inf"))
        return self.c_proj((self.drop(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2))
"""
BY_HEAD = GPT.replace("for each in self.c_attn(x).chunk(3, -1))", "for each in (0,))").replace(
    "q, k, v = (each.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for each in (0,))",
    "q, k, v = self.c_attn(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2).chunk(3, -1)",
)
ADDED = GPT.replace("def forward(self, x)", "def forward(self, x, attention_mask=None)").replace(
    """.masked_fill(self.seen[:, :, : x.shape[1], : x.shape[1]] == 0, float("-inf"))""",
    " + (0 if attention_mask is None else attention_mask)",
)
RAW = """
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(width, width)) for _ in range(3))

    def forward(self, x):
        q, k, v = (x @ each{turned} for each in (self.wq, self.wk, self.wv))
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
"""


@pytest.mark.parametrize(
    ("source", "cases"),
    [
        (GPT, ("causal/one_sequence", "maps/causal_sequence")),
        (BY_HEAD, ("causal/one_sequence", "maps/causal_sequence")),
        (RAW.format(turned=""), ("heads/one_item",)),
        (RAW.format(turned=".T"), ("heads/one_item",)),
    ],
    ids=["settings in an object", "a fused matrix by head", "in, out", "out, in"],
)
def test_a_way_to_store_weights_is_found(source: str, cases: tuple[str, ...]) -> None:
    said = attnsuite.check(module(source), cases=cases, dtypes="float32")

    assert [each.status for each in said] == [Status.PASSED] * len(cases)


def test_roles_are_said(write: Write) -> None:
    says = conversion(write, MODULES["three inputs"])

    assert "q = to_q, k = to_k, v = to_v, o = to_out; biases too" in says


def test_the_user_names_roles(write: Write) -> None:
    source = MODULE.format(
        projections="self.first, self.second, self.third, self.W_k",
        inputs="x",
        output="self.W_k(_attended(self.second(x), self.first(x), self.third(x), self.heads))",
    )

    says = conversion(write, source, weights="q=second,k=first,v=third,o=W_k")

    assert "k = first, q = second, v = third, o = W_k" in says


def test_the_author_names_roles(write: Write) -> None:
    source = MODULES["names that do not tell"].replace("class Mine", "@implementation(weights=ROLES)\nclass Mine")
    source = source.replace("ROLES", '{"q": "a", "k": "b", "v": "c", "o": "d"}')

    assert "q = a, k = b, v = c, o = d" in conversion(write, f"from attnsuite import implementation\n{source}")


def test_arguments_of_a_class_are_given(write: Write) -> None:
    source = (
        MODULES["three inputs"]
        .replace("width=8, heads=2", "width, kind, heads")
        .replace("super().__init__()", "super().__init__()\n        assert kind == 'soft'")
    )

    assert "q = to_q" in conversion(write, source, "Mine(8, 'soft', heads=2)")
    with pytest.raises(
        UsageError, match=r"Mine is made with kind, whose meaning is unknown; write the class with its a"
    ):
        conversion(write, source)


REFUSED = {
    "arguments that are no literals": (
        MODULES["one input"],
        "Mine(os.sep)",
        r"the arguments of Mine are \(os.sep\); exp",
    ),
    "arguments of an instance": (
        MODULES["one input"] + "mine = Mine()\n",
        "mine(8)",
        "mine is no class: write it without",
    ),
    "another layer": (
        MODULES["one input"].replace(
            "super().__init__()", "super().__init__()\n        self.norm = nn.LayerNorm(width)"
        ),
        "Mine",
        r"Mine has parameters norm, W_q, W_k, W_v, W_o: no role for norm.weight, norm.bias; say --weights q=NAME",
    ),
    "a role without weights": (
        MODULES["one input"].replace("self.W_k(x)", "x").replace("self.W_k, self.W_v", "self.W_v, self.extra"),
        "Mine",
        r"has parameters W_q, W_v, extra, W_o: no role for extra.* and no weights for w_key; say",
    ),
    "one parameter in two roles": (
        MODULES["one input"].replace("    def forward", "        self.W_k = self.W_q\n\n    def forward"),
        "Mine",
        r"Mine has parameters W_q, W_v, W_o: no weights for ",
    ),
    "a forward that needs more": (
        MODULES["three inputs"].replace("mask=None", "cache, positions"),
        "Mine",
        r"Mine.forward needs cache, positions, which no test of multi_head_attention gives",
    ),
    "one size": (
        MODULES["one input"].replace("width=8, heads=2", "").replace("heads\n", "2\n").replace("width", "8"),
        "Mine",
        "Mine takes no arguments: tests need modules of several widths",
    ),
    "no name of a width": (
        MODULES["one input"].replace("width=8, heads=2", "heads, n").replace("(width, width)", "(n, n)"),
        "Mine(2, 8)",
        "Mine takes heads, n; no name shows a width: tests need modules of several widths; name or add an argument",
    ),
    "a forward that raises": (
        MODULES["one input"].replace("self.W_q(x)", "self.W_q(x[0, 0, :1])"),
        "Mine",
        r"Mine.forward raises RuntimeError: mat1 and mat2 .*; it is made as Mine\(width=15, heads=3\) and gets x of",
    ),
}


@pytest.mark.parametrize(("source", "target", "says"), REFUSED.values(), ids=REFUSED)
def test_a_module_that_cannot_be_tested_is_refused_in_one_line(
    write: Write, source: str, target: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        conversion(write, source, target)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["q", "q=", "w=lin_Q", "q=a,,k=b"])
def test_roles_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--weights {text}: expected layers by role, as q=lin_Q,k=lin_K")):
        weights_in(text)


def test_a_named_layer_has_to_exist(write: Write) -> None:
    with pytest.raises(UsageError, match=r"Mine has no parameter lin_Q; there are: W_q, W_k, W_v, W_o"):
        conversion(write, MODULES["one input"], weights="q=lin_Q")


def test_the_contract_of_a_class_with_weights_is_known_from_its_source(write: Write) -> None:
    file = write("kernel.py", MODULES["one input"] + "mine = Mine()\n\n\nclass Inherits(Mine): ...\n")

    contracts = {each: find([f"{file}:{each}"])[0].contract for each in ("Mine", "mine", "Inherits", "Mine(8, 2)")}

    assert {*contracts.values()} == {"multi_head_attention"}


def test_a_convention_turns_the_mask() -> None:
    source = MODULE.replace("def forward(self, {inputs})", "def forward(self, query, key, value, mask=None)").format(
        projections="self.q, self.k, self.v, self.o", inputs="",
        output="self.o(_masked(self.q(query), self.k(key), self.v(value), self.heads, mask))",
    ).replace("def _attended(query, key, value, number):", "def _masked(query, key, value, number, mask):").replace(
        "q.shape[-1] ** 0.5, -1)", "q.shape[-1] ** 0.5 + (0.0 if mask is None else mask * -1e30), -1)"
    )  # fmt: skip
    made = module(f"from attnsuite import implementation\n{source}")
    made.__attnsuite__ = {  # type: ignore[attr-defined]
        **attnsuite.implementation(conventions={"bool_mask": "may_not"})(lambda: None).__attnsuite__  # type: ignore[attr-defined]
    }

    said = attnsuite.check(made, cases=("mask/by_item", "mask/of_sequence", "causal/square"), dtypes="float32")

    assert {each.status for each in said} == {Status.PASSED}


NAN_IN_EMPTY_ROWS = MODULE.replace("number):", "number, mask):").replace(
    "q.shape[-1] ** 0.5, -1)", "q.shape[-1] ** 0.5 + (0.0 if mask is None else torch.where(mask, 0.0, -torch.inf)), -1)"
).format(
    projections="self.q, self.k, self.v, self.o", inputs="query, key, value, mask=None",
    output="self.o(_attended(self.q(query), self.k(key), self.v(value), self.heads, mask))",
)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "status"),
    [
        pytest.param("", Status.UNSUPPORTED, id="in empty rows alone"),
        pytest.param("v = v * torch.nan", Status.FAILED, id="in others too"),
    ],
)
def test_nan_for_a_query_that_sees_no_key_is_unsupported(line: str, status: Status) -> None:
    source = NAN_IN_EMPTY_ROWS.replace("    weights =", f"    {line}\n    weights =")

    (empty,) = attnsuite.check(module(source), cases="mask/empty_rows", dtypes="float32")

    assert empty.status == status


@pytest.mark.filterwarnings("ignore:torch.quantize:UserWarning")
def test_a_quantised_module_is_refused() -> None:
    class Quantised(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.q = torch.ao.nn.quantized.dynamic.Linear(width, width)
            self.o = nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(UsageError, match="Quantised is quantised: its weights cannot be set"):
        attnsuite.check(Quantised, cases="plain/usual", dtypes="float32")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:torch.quantize:UserWarning")
def test_a_quantised_instance_is_refused(write: Write) -> None:
    mine = "mine = torch.ao.quantization.quantize_dynamic(Mine(8, 2).eval(), {nn.Linear})\n"

    with pytest.raises(UsageError, match="mine is quantised: its weights cannot be set") as refused:
        conversion(write, MODULES["one input"] + mine, "mine")

    assert "\n" not in str(refused.value)


def test_a_batch_of_no_items_that_raises_is_unsupported() -> None:
    source = MODULES["three inputs"].replace(
        "each.unflatten(-1, (number, -1))", "each.view(len(each), -1, number, each.shape[-1] // number)"
    )
    one, none = attnsuite.check(module(source), cases=("plain/one_sequence", "plain/no_items"), dtypes="float32")

    assert (none.status, none.detail[:36]) == (Status.UNSUPPORTED, "the module takes no empty batch: can")
    assert one.status == Status.PASSED
    wrong = source.replace("return self", "return query[:, :1] if not len(query) else self")
    (other,) = attnsuite.check(module(wrong), cases="plain/no_items", dtypes="float32")
    assert other.status == Status.FAILED


@pytest.mark.parametrize(
    "names",
    [
        "n_heads, n_kv_heads",
        "num_heads, num_kv_heads=None",
        "num_attention_heads, num_key_value_heads",
        "n_head, kv_heads",
    ],
)
def test_a_number_of_heads_of_keys_is_recognised(names: str) -> None:
    heads, keys = (name.partition("=")[0] for name in names.split(", "))
    source = MODULES["one matrix"].replace("width=8, heads=2", f"width, {names}").replace("self.heads = heads", (
        f"self.heads, self.keys = {heads}, {keys}\n        wide = width + 2 * width // self.heads * self.keys"
    )).replace("3 * width", "wide").replace("self.c_attn(x).chunk(3, -1)", "self.split(self.c_attn(x))")  # fmt: skip
    source += """
    def split(self, x):
        head = x.shape[-1] // (self.heads + 2 * self.keys)
        q, *others = x.split([self.heads * head, self.keys * head, self.keys * head], -1)
        return q, *(y.unflatten(-1, (self.keys, -1)).REPEATED.flatten(-2) for y in others)
"""
    cases = ("maps/grouped", "heads/one_key_head", "maps/biased_grouped", "plain/one_sequence")
    right, tiled = (
        module(source.replace("REPEATED", repeated))
        for repeated in ("repeat_interleave(self.heads // self.keys, -2)", "repeat(1, 1, self.heads // self.keys, 1)")
    )

    assert {each.status for each in attnsuite.check(right, cases=cases, dtypes="float32")} == {Status.PASSED}
    said = {each.case: each for each in attnsuite.check(tiled, cases=cases, dtypes="float32")}
    assert {case for case, each in said.items() if each.fails} == {"maps/grouped", "maps/biased_grouped"}
    assert said["maps/grouped"].diagnosis == ("tiled_key_heads",)


@pytest.mark.parametrize(
    "argument", ["dropout=0.0", "attn_dropout: float = 0.0", "attn_pdrop=0", "dropout_p=0.0", "p=0.0", "drop"]
)
def test_a_module_is_made_with_dropout(argument: str) -> None:
    name = re.split("[:=]", argument)[0]
    source = MODULES["three inputs"].replace("width=8, heads=2", f"width, heads, {argument}")
    source = source.replace("self.heads = heads", f"self.heads = heads\n        assert {name} == 0.5")
    (outcome,) = attnsuite.check(module(source), cases="plain/usual", dtypes="float32")

    assert outcome.status == Status.PASSED


def test_other_numbers_are_no_dropout(write: Write) -> None:
    source = MODULES["three inputs"].replace("width=8, heads=2", "width, heads, p=2, drop=None, eps=1e-5")
    source = source.replace(
        "self.heads = heads", "self.heads = heads\n        assert (p, drop, eps) == (2, None, 1e-5)"
    )

    assert "q = to_q" in conversion(write, source)


def test_unusual_modules_are_described(write: Write) -> None:
    unused = MODULES["one input"].replace("self.W_k(x)", "self.W_q(x)")
    random = GPT.replace("self.drop(scores.softmax(-1))", "torch.dropout(scores.softmax(-1), 0.3, True)")

    assert conversion(write, unused).endswith("forward does not use W_k.weight, W_k.bias")
    says = conversion(write, random)
    assert "it always hides later positions, so only tests with is_causal run" in says
    assert "dropout in evaluation: two equal calls differ, so something is random" in says
    says = conversion(write, GPT.replace(".tril()", ".tril(-1)"))  # the first row is NaN
    assert "always hides later positions" in says
    assert "two equal calls" not in says
    assert "its fused layer holds q, k and v of one head after the other" in conversion(write, BY_HEAD)


@pytest.mark.parametrize("softmax", ["scores.softmax(-1)", "scores.float().softmax(-1).type_as(q)"])
def test_a_mask_is_added_where_a_module_adds_it(softmax: str) -> None:
    outcomes = attnsuite.check(
        module(ADDED.replace("scores.softmax(-1)", softmax)), cases="mask/of_sequence", dtypes=["float32", "bfloat16"]
    )

    assert [outcome.status for outcome in outcomes] == [Status.PASSED] * 2


def test_a_module_that_says_that_it_is_causal_has_to_be(write: Write) -> None:
    sees = GPT.replace('scores.masked_fill(self.seen[:, :, : x.shape[1], : x.shape[1]] == 0, float("-inf"))', "scores")
    cases = "causal/one_sequence"

    assert "it should always hide later positions by its name or a buffer" in conversion(write, sees)
    (outcome,) = attnsuite.check(module(sees), cases=cases, dtypes="float32")
    assert outcome.status is Status.FAILED
    chosen = MODULES["one input"].replace("heads=2):", "heads=2, is_causal=False):")
    chosen = chosen.replace("= heads", "= heads\n        self.register_buffer('seen', torch.ones(9, 9).tril())")
    assert "later positions" not in conversion(write, chosen)
    assert "it should always hide later positions" in conversion(write, chosen.replace(", is_causal=False", ""))


def test_the_second_of_two_inputs_is_said_to_be_of_keys_and_values(write: Write) -> None:
    takes_angles = MODULES["one input"].replace("def forward(self, x)", "def forward(self, x, freqs_cis)")

    assert "freqs_cis of forward is the input of keys and values" in conversion(write, takes_angles)
    assert "of keys and values" not in conversion(write, MODULES["one input"])


def test_a_decorated_class_of_a_file_is_called_as_any_other(write: Write) -> None:
    decorated = MODULES["three inputs"].replace(
        "class Mine", "@implementation(conventions={'empty_row': 'nan'})\nclass Mine"
    )
    file = write("kernel.py", f"from attnsuite import implementation\n{decorated}")

    (declaration,) = find([f"{file}:Mine"])

    assert {"num_heads", "w_query", "attn_mask"} <= {*(load(declaration).declaration.parameters or ())}
