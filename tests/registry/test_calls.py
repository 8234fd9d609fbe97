"""How functions are called: by place where they must, with what they always need, and refused where no test can."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from targets import Write

from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.model import Outcome
from attnsuite.registry import Declaration, Loaded, find, load
from attnsuite.registry.calls import untested_parameters
from attnsuite.registry.signatures import names, signature
from attnsuite.registry.signatures.signature import SignatureCall

SDPA = "from torch.nn.functional import scaled_dot_product_attention as sdpa\n"


def loaded(file: Path, signed: str = "", contract: str | None = None) -> Loaded:
    (declaration,) = find([str(file)], contract, signature=signed)
    found = load(declaration)
    assert isinstance(found, Loaded)
    return found


def outcomes(implementation: Loaded, *cases: str) -> list[Outcome]:
    return Session(CheckRequest(cases, ("float32",)), keep_inputs=False).outcomes(implementation)


# Refused


@pytest.mark.parametrize(
    "definition",
    [
        "def attention(query, key, value, *more): ...",
        "def attention(*inputs, **options): ...",
        "def attention(p, k, v): ...",
        "def attention(x, weight, bias): ...",
        "def attention(x, memory, mask): ...",
        "def attention(query, key, value, is_causal, *, scale): ...",
        "import functools\ndef _f(q, k, v, tile): ...\nattention = functools.partial(_f, tile=3)",
        "import functools\ndef attention(q, k, v, tile): ...\n"
        "_f = attention\n@functools.wraps(_f)\ndef attention(q, k, v):\n    return _f(q, k, v, 3)",
        "import functools\ndef _f(q, k, v, tile): ...\n"
        "@functools.wraps(_f)\ndef attention(*inputs, **options):\n    return _f(*inputs, tile=3, **options)",
        "class attention:\n    def __call__(self, query, key, value, is_causal=False): ...",
        "attention = max",
    ],
)
def test_what_may_be_called_is_not_refused(write: Write, definition: str) -> None:
    loaded(write("kernel.py", definition))


# What a function needs is given


TRITON = "return sdpa(q, k, v, is_causal=causal, scale=sm_scale)"


@pytest.mark.parametrize(
    "text",
    [
        f"def attention(q, k, v, causal, sm_scale):\n    {TRITON}",
        f"def attention(q, k, v, causal, sm_scale, warp_specialize=True):\n    {TRITON}",
        "import torch\nclass _attention(torch.autograd.Function):\n    @staticmethod\n"
        f"    def forward(ctx, q, k, v, causal, sm_scale):\n        {TRITON}\nattention = _attention.apply",
    ],
)
def test_the_signature_of_triton_s_tutorial_is_known_by_what_has_no_default(write: Write, text: str) -> None:
    found = loaded(write("kernel.py", f"{SDPA}{text}\n"))

    assert found.declaration.signature == "triton"
    assert {each.status for each in outcomes(found, "plain", "causal/square_5", "scale/half")} == {"passed"}


def test_options_without_a_default_are_given_in_every_call(write: Write) -> None:
    body = "return sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale=scale + 0.0)"
    text = f"{SDPA}def attention(query, key, value, attn_mask, dropout_p, is_causal, scale):\n    {body}\n"

    found = loaded(write("kernel.py", text))

    said = outcomes(found, "plain", "causal/square_5", "scale/half", "bool_mask/per_head")
    assert {each.status for each in said} == {"passed"}
    assert found.declaration.rewrites_calls


@pytest.mark.parametrize("kind", ["def", "class"])
def test_options_that_can_be_given_by_place_alone_are_given_so(write: Write, kind: str) -> None:
    body = "return sdpa(query, key, value, is_causal=is_causal, scale=scale)"
    text = {
        "def": f"def attention(query, key, value, is_causal=False, scale=None, /):\n    {body}\n",
        "class": "class Mine:\n    def __call__(self, query, key, value, is_causal=False, scale=None, /):\n"
        f"        {body}\nattention = Mine()\n",
    }[kind]

    found = loaded(write("kernel.py", SDPA + text))

    assert {each.status for each in outcomes(found, "plain", "causal/square_5", "scale/half")} == {"passed"}


# What no test gives


@pytest.mark.parametrize("name", names("attention"))
def test_what_a_signature_gives_is_what_it_says(name: str) -> None:
    of, query, tensor, mask = signature(name), torch.ones(1, 1, 1, 2), torch.ones(1, 1, 2, 2), torch.ones(1, 2)
    options: list[dict[str, Any]] = [{}, {"attn_mask": mask}, {"attn_mask": mask > 0}, {"dropout_p": 0.5}]
    options += [{"is_causal": True}, {"scale": 0.5}, {"enable_gqa": True}, {"window": (1, None)}]
    options += [{"softcap": 2.0}, {"sinks": torch.ones(1)}, {"return_lse": True}]

    found: list[Any] = []
    for each in options:
        with suppress(NotImplementedError):  # what the library has no word for
            found += [of.keywords(SignatureCall(query, tensor, tensor, each))] if each.keys() <= {*of.options} else []

    assert frozenset[str]().union(*found) == of.tested


@pytest.mark.parametrize(
    ("definition", "untested"),
    [
        ("def attention(query, key, value, attn_mask=None): ...", ()),
        ("def attention(query, key, value, mask=None, *, use_cache=False): ...", ("mask", "use_cache")),
        ("def attention(query, key, value, past_key_value=None, **kwargs): ...", ("past_key_value",)),
        ("def attention(q, k, v, softmax_scale=None, causal=False, alibi_slopes=None): ...", ("alibi_slopes",)),
        ("def attention(query, key, value, score_mod=None, scale=None): ...", ("score_mod",)),
        ("class attention:\n    def __call__(self, query, key, value, cache=None): ...", ("cache",)),
    ],
)
def test_parameters_that_no_test_gives_are_known(write: Write, definition: str, untested: tuple[str, ...]) -> None:
    assert loaded(write("kernel.py", definition)).declaration.untested == untested


def test_the_scale_and_the_sinks_of_mlx_are_given_and_its_stream_is_not() -> None:
    declaration = Declaration("attention", "mine", "attention", signature="mlx")

    def attention(
        q: Any, k: Any, v: Any, *, scale: float, mask: Any = None, sinks: Any = None, stream: Any = None
    ) -> None: ...

    assert untested_parameters(declaration, attention) == ("stream",)
