"""How functions are called: by place where they must, with what they always need, and refused where no test can."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from targets import Write

from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.model import Outcome, UsageError
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


def refusal(file: Path, contract: str | None = None) -> list[str]:
    with pytest.raises(UsageError) as error:
        load(find([str(file)], contract)[0])
    return str(error.value).splitlines()


# Refused


@pytest.mark.parametrize(
    ("definition", "says", "code"),
    [
        pytest.param(
            "def varlen(q, k, v, cu_seqlens_q, max_seqlen_q, causal=False, softmax_scale=None): ...",
            "varlen needs cu_seqlens_q, max_seqlen_q, which no test of attention gives",
            [
                "from kernel import varlen as mine",
                "",
                "def attention(query, key, value):",
                "    cu_seqlens_q = ...  # fill in",
                "    max_seqlen_q = ...  # fill in",
                "    return mine(query, key, value, cu_seqlens_q, max_seqlen_q)",
            ],
            id="varlen",
        ),
        pytest.param(
            "def attention(qkv, causal=False, softmax_scale=None): ...",
            "attention takes qkv, causal, softmax_scale; attention gives query, key, value by position",
            [
                "from kernel import attention as mine",
                "",
                "def attention(query, key, value):",
                "    qkv = ...  # fill in",
                "    return mine(qkv)",
            ],
            id="packed",
        ),
        pytest.param(
            "def attention(*, query, key, value): ...",
            "attention takes nothing by position; attention gives query, key, value by position",
            [
                "from kernel import attention as mine",
                "",
                "def attention(query, key, value):",
                "    return mine(query=query, key=key, value=value)",
            ],
            id="by keyword alone",
        ),
    ],
)
def test_a_function_that_no_test_can_call_is_refused_with_a_function_around_it(
    write: Write, definition: str, says: str, code: list[str]
) -> None:
    first, empty, *lines = refusal(write("kernel.py", definition))

    assert (first, empty) == (f"attention/kernel: {says}; write a function around it:", "")
    assert not re.search(r"docs/|\.md\b|https?:", first), "it names nothing that is not installed"
    assert [line[4:] for line in lines] == code
    compile("\n".join(code), "wrapper", "exec")


def test_the_command_prints_the_code_as_it_is(write: Write, status_of: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = write("kernel.py", "def varlen(q, k, v, lengths, softmax_scale=None): ...")

    assert status_of("check", str(file)) == 2
    first, *code = capsys.readouterr().err.splitlines()
    assert first.startswith("attnsuite: attention/kernel: varlen needs lengths, ")
    assert code[-1] == "        return mine(query, key, value, lengths)"


def test_a_signature_that_gives_what_a_function_needs_is_named(write: Write) -> None:
    file = write("kernel.py", "def attention(q, k, v, causal, sm_scale): ...")

    with pytest.raises(
        UsageError,
        match=r"attention needs sm_scale, .* gives without --signature flashinfer or flashinfer_decode or triton;",
    ):
        load(find([str(file)], signature="flash_attn")[0])


@pytest.mark.parametrize("definition", ["def norm(x, weight, bias): ...", "def norm(x): ..."])
def test_another_layer_is_not_taken_for_an_attention(write: Write, definition: str) -> None:
    (says,) = refusal(write("kernel.py", definition))

    assert re.match(r"attention/kernel: norm takes x.*; an attention is given query, key, value: say --contract ", says)


def test_what_another_contract_does_not_give_is_refused_too(write: Write) -> None:
    first, *_ = refusal(write("kernel.py", "def norm(x, y, weight, bias, epsilon): ..."), "add_norm")

    assert first.startswith("add_norm/kernel: norm needs epsilon, which no test of add_norm gives; ")


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
