"""An attention that lacks what a task needs is refused in one line, before training; without dropout it may learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from toys import TOY

from attnsuite import registry
from attnsuite.documents.learning.attentions import Plug, plug
from attnsuite.documents.learning.engine import deterministic
from attnsuite.model import UsageError

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
        "toy needs causal, and attention/anything, called with is_causal, raises NotImplementedError: no causal masks"
    )


def test_a_file_whose_output_has_no_gradient_is_refused(write: Write) -> None:
    file = write("cut.py", "def attention(query, key, value, **options):\n    return query.detach()\n")

    assert refused(file) == "toy needs an attention, and attention/cut, called, gives an output without a gradient"


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("[query, key, value]", "list, and a tensor is due"),
        ("None", "NoneType, and a tensor is due"),
        ("query.sum()", "a tensor of shape (), and {shape} is due"),
        ("query[..., :1]", "a tensor of shape {narrow}, and {shape} is due"),
        ("query.double()", "a tensor of dtype float64, and float32 is due"),
        ("query.to('meta')", "a tensor of device meta, and cpu is due"),
        ("query.to_sparse()", "a tensor of layout sparse_coo, and strided is due"),
    ],
)
class TestWhatIsNoOutput:
    def test_is_refused(self, write: Write, returned: str, said: str) -> None:
        file = write("odd.py", f"def attention(query, key, value, **options):\n    return {returned}\n")

        due = said.format(shape="(1, 1, 2, 2)", narrow="(1, 1, 2, 1)")
        assert refused(file) == f"toy needs an attention, and attention/odd, called, returns {due}"

    def test_is_refused_in_a_training_where_it_comes_at_real_sizes_alone(
        self, write: Write, returned: str, said: str
    ) -> None:
        small = "    if query.shape[-1] == 2:\n        return query + key + value\n"
        file = write("odd.py", f"def attention(query, key, value, **options):\n{small}    return {returned}\n")
        attention = plugged(file).attention

        due = said.format(shape="(1, 2, 3, 4)", narrow="(1, 2, 3, 1)")
        with pytest.raises(UsageError) as raised:
            attention(*TENSORS)
        assert str(raised.value) == f"attention/odd, called in training, returns {due}"


def test_an_output_that_loses_its_gradient_at_real_sizes_ends_a_training(write: Write) -> None:
    returned = "query + key + value if query.shape[-1] == 2 else query.detach()"
    attention = plugged(
        write("cut.py", f"def attention(query, key, value, **options):\n    return {returned}\n")
    ).attention

    attention(*TENSORS)  # of inputs without gradients none is due
    with pytest.raises(UsageError, match=r"^attention/cut, called in training, gives an output without a gradient$"):
        attention(*[each.clone().requires_grad_() for each in TENSORS])


@pytest.mark.parametrize("always", [True, False])
def test_one_that_ends_python_is_told_in_a_line(write: Write, always: bool) -> None:
    head = "import sys\n\n\ndef attention(query, key, value, **options):\n"
    condition = "True" if always else "query.shape[-1] > 2"
    file = write("quits.py", f"{head}    if {condition}:\n        sys.exit(0)\n    return query + key + value\n")

    if always:
        assert refused(file) == "toy needs an attention, and attention/quits, called, raises SystemExit: 0"
    else:
        with pytest.raises(UsageError, match=r"^attention/quits raised in training: SystemExit: 0$"):
            plugged(file).attention(*TENSORS)


def test_of_an_output_and_weights_the_output_is_taken_as_check_takes_it(write: Write) -> None:
    file = write("both.py", "def attention(query, key, value, **options):\n    return query + key + value, query\n")

    assert torch.equal(plugged(file).attention(*TENSORS), sum(TENSORS[1:], TENSORS[0]))


def test_what_it_changes_in_the_process_is_put_back(write: Write) -> None:
    file = write(
        "changes.py",
        """
        import torch


        def attention(query, key, value, **options):
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)
            torch.set_num_threads(2)
            torch.use_deterministic_algorithms(False)
            with torch.enable_grad():
                return query + key + value
        """,
    )

    def state() -> tuple[object, ...]:
        strict = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        return torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads(), *strict

    with deterministic():
        before = state()
        assert before == (torch.float32, True, 1, True, True)
        attention = plugged(file).attention
        assert state() == before
        attention(*TENSORS)
        assert state() == before


def test_inputs_that_it_makes_others_do_not_change_what_is_due(write: Write) -> None:
    narrow = "    if query.shape[-1] == 2:\n        return query + key + value\n"
    wide = "    query.data = query.data.double()\n    return query\n"
    file = write("data.py", f"def attention(query, key, value, **options):\n{narrow}{wide}")

    said = "^attention/data, called in training, returns a tensor of dtype float64, and float32 is due$"
    with pytest.raises(UsageError, match=said):
        plugged(file).attention(*[each.clone() for each in TENSORS])


def test_an_answer_of_a_kind_that_cannot_be_asked_about_is_one_line(write: Write) -> None:
    file = write(
        "kind.py",
        """
        import torch


        class Kind(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                raise RuntimeError("ask me nothing")


        def attention(query, key, value, **options):
            total = query + key + value
            return total if query.shape[-1] == 2 else total.as_subclass(Kind)
        """,
    )

    with pytest.raises(UsageError, match=r"^attention/kind raised in training: RuntimeError: ask me nothing$"):
        plugged(file).attention(*TENSORS)


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_what_is_not_finite_while_a_model_is_scored_is_one_line(write: Write, number: str) -> None:
    returned = f"(query + key + value) * (1.0 if torch.is_grad_enabled() else {number})"
    head = f"import torch\nfrom math import {number}\n\n\ndef attention(query, key, value, **options):\n"
    attention = plugged(write("scored.py", f"{head}    return {returned}\n")).attention

    attention(*TENSORS)
    said = "^attention/scored, called in training, gives numbers that are not finite, while the model is scored$"
    with torch.no_grad(), pytest.raises(UsageError, match=said):
        attention(*TENSORS)


def test_ctrl_c_passes_through_an_attention(write: Write) -> None:
    raising = "    raise KeyboardInterrupt\n"
    small = "    if query.shape[-1] == 2:\n        return query + key + value\n"
    file = write("stopped.py", f"def attention(query, key, value, **options):\n{small}{raising}")

    with pytest.raises(KeyboardInterrupt):
        plugged(file).attention(*TENSORS)


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
        from attnsuite import implementation


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
