"""An attention that lacks what a task needs is refused in one line, before training; without dropout it may learn."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from toys import TOY

from suite import registry
from suite.learning.attentions import Plug, plug
from suite.records import UsageError

Write = Callable[[str, str], Path]
TASK = replace(TOY, own="", needs=frozenset({"bool_mask", "causal", "gradient"}), uses=frozenset({"dropout"}))
TENSORS = [torch.randn(1, 2, 3, 4) for _ in range(3)]


def plugged(target: str | Path) -> Plug:
    return plug(registry.find([str(target)])[0], TASK)


def refused(target: str | Path) -> str:
    with pytest.raises(UsageError) as raised:
        plugged(target)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("name", ["matmul", "chunked", "torch_sdpa.automatic"])
def test_what_has_all_features_is_plugged_in_as_it_is(name: str) -> None:
    found = plugged(name)

    assert not found.without
    torch.testing.assert_close(found.attention(*TENSORS), torch.nn.functional.scaled_dot_product_attention(*TENSORS))


def test_a_declared_gap_is_told_with_its_reason() -> None:
    assert refused("onnx_operator") == (
        "toy needs what attention/onnx_operator lacks: gradient (attention/onnx_operator: onnxruntime sessions compute "
        "no gradients)"
    )


def test_a_file_whose_function_takes_no_mask_is_refused(write: Write) -> None:
    file = write(
        "maskless.py", "def attention(query, key, value, *, is_causal=False):\n    return query + key + value\n"
    )

    assert "toy needs what attention/maskless lacks: bool_mask (attention/maskless takes no attn_mask)" in refused(file)


def test_a_file_that_takes_anything_is_asked(write: Write) -> None:
    file = write(
        "anything.py",
        """
        def attention(query, key, value, **options):
            if options.get("is_causal"):
                raise NotImplementedError("no causal masks")
            return query + key + value
        """,
    )

    assert refused(file) == (
        "attention/anything, called with is_causal, raises NotImplementedError: no causal masks: toy needs that"
    )


def test_a_file_whose_output_has_no_gradient_is_refused(write: Write) -> None:
    file = write("cut.py", "def attention(query, key, value, **options):\n    return query.detach()\n")

    assert refused(file) == "attention/cut, called, gives an output without a gradient: toy needs that"


@pytest.mark.parametrize(
    ("returned", "said"),
    [("(query, key)", "a tuple"), ("query.sum()", r"one of \(\)"), ("query.mT[..., :1]", r"one of \(1, 1, 2, 1\)")],
)
def test_what_is_no_output_is_refused(write: Write, returned: str, said: str) -> None:
    file = write("odd.py", f"def attention(query, key, value, **options):\n    return {returned}\n")

    due = r"^attention/odd, called, should return a tensor of \(1, 1, 2, 2\), and returns "
    assert re.search(due + said, refused(file))


def test_a_gradient_that_raises_is_refused(write: Write) -> None:
    file = write(
        "stuck.py",
        """
        import torch


        class Stuck(torch.autograd.Function):
            @staticmethod
            def forward(ctx, query):
                return query.clone()

            @staticmethod
            def backward(ctx, gradient):
                raise NotImplementedError("forward only")


        def attention(query, key, value, **options):
            return Stuck.apply(query)
        """,
    )

    assert "called, raises NotImplementedError: forward only" in refused(file)


def test_one_that_is_missing_or_broken_is_named(write: Write) -> None:
    missing = """
        from suite import implementation


        @implementation(requires=["not_there"])
        def attention(query, key, value): ...
    """

    assert "is missing: No module named 'not_there'" in refused(write("absent.py", missing))
    assert "is broken: ZeroDivisionError" in refused(
        write("broken.py", "1 / 0\n\n\ndef attention(q, k, v):\n    ...\n")
    )


def test_a_model_is_no_attention() -> None:
    assert refused("transformer/eager") == (
        "transformer/eager is no attention, and only an attention can be plugged into toy"
    )


def test_without_dropout_it_is_never_asked_for_it(write: Write) -> None:
    file = write(
        "plain.py",
        """
        import torch


        def attention(query, key, value, *, attn_mask=None, is_causal=False):
            return torch.nn.functional.scaled_dot_product_attention(
                query, key, value, attn_mask=attn_mask, is_causal=is_causal
            )
        """,
    )
    found = plugged(file)

    assert found.without == {"dropout"}
    assert torch.equal(found.attention(*TENSORS, dropout_p=0.5), found.attention(*TENSORS))


def test_what_it_raises_in_a_training_is_one_line(write: Write) -> None:
    file = write(
        "small.py",
        """
        def attention(query, key, value, **options):
            if query.shape[-1] > 2:
                raise RuntimeError("widths up to 2 alone")
            return query + key + value
        """,
    )

    with pytest.raises(UsageError, match=r"^attention/small raised in training: RuntimeError: widths up to 2 alone$"):
        plugged(file).attention(*TENSORS)
