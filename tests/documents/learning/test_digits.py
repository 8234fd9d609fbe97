"""Digits: the images, the Vision Transformer with dropout, and what an attention with a wrong gradient does to it."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnsuite.contracts import contract
from attnsuite.contracts.models.vision_transformer.cases.draws import model
from attnsuite.contracts.models.vision_transformer.contract import shapes
from attnsuite.documents.learning.engine import train
from attnsuite.documents.learning.task import generator
from attnsuite.documents.learning.tasks import digits, wrong_gradients
from attnsuite.documents.learning.tasks.digits import ACCURACY, DIGITS, MODEL, beginning, prepare, vision_transformer
from attnsuite.documents.learning.tasks.wrong_gradients import MISTAKES
from attnsuite.model import RIGHT_GRADIENT, WRONG_GRADIENTS, UsageError

CONFIG = {name: DIGITS.config[name] for name in MODEL}


def test_no_image_is_trained_on_and_held_out() -> None:
    pytest.importorskip("sklearn")
    (images, labels), (others, due) = digits.digits()

    assert (len(images), len(others)) == (1438, 359)
    assert images.shape[1:] == others.shape[1:] == (1, 8, 8)
    assert set(labels.tolist()) == set(due.tolist()) == set(range(10))
    assert abs(float(images.mean())) < 1e-5


def test_without_scikit_learn_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    digits.digits.cache_clear()

    with pytest.raises(
        UsageError, match=r"^the task digits needs .* scikit-learn, .*: pip install 'attnsuite\[learn\]'$"
    ):
        prepare(DIGITS.config, 0, sdpa)
    digits.digits.cache_clear()


def test_without_dropout_it_is_the_contract_s_model() -> None:
    weights, images = beginning(CONFIG, 0), torch.randn(3, 1, 8, 8)

    ours = vision_transformer(CONFIG, weights, sdpa)(images)

    assert {name: tuple(each.shape) for name, each in weights.items()} == shapes(CONFIG)
    assert torch.allclose(ours, model.eager(CONFIG, weights)(images), atol=1e-5)


def test_dropout_follows_positions_attention_and_both_layers_of_each_mlp() -> None:
    weights, images = beginning(CONFIG, 0), torch.randn(3, 1, 8, 8)
    asked: list[float] = []

    def attention(*tensors: Tensor, dropout_p: float = 0.0) -> Tensor:
        asked.append(dropout_p)
        return sdpa(*tensors)

    random = generator(0, "dropout")
    before = random.get_state()
    dropped = vision_transformer(CONFIG, weights, attention, 0.5, random)(images)

    assert asked == [0.5] * CONFIG["blocks"]
    numbers = 3 * 17 * (CONFIG["width"] * (1 + CONFIG["blocks"]) + CONFIG["mlp_width"] * CONFIG["blocks"])
    drawn = torch.Generator()
    drawn.set_state(before)
    torch.rand(numbers, generator=drawn)
    assert not torch.allclose(dropped, vision_transformer(CONFIG, weights, sdpa)(images), atol=0.1)


@pytest.mark.slow
def test_a_few_epochs_learn_and_logistic_regression_stands_beside() -> None:
    pytest.importorskip("sklearn")

    found = train(DIGITS.with_epochs(3), 0, sdpa)

    assert found.curve[2] < found.curve[0]
    assert found.scores[ACCURACY] > 0.5
    assert 0.95 < found.beside["logistic regression"] < 0.98


# Wrong gradients


def test_every_wrong_gradient_is_a_deviation_of_the_contract_with_a_right_answer() -> None:
    known = {each.name for each in contract("attention").mutants()}
    query, key, value = torch.randn(3, 2, 4, 5, 8).unbind()

    assert set(MISTAKES) <= known
    for name in (RIGHT_GRADIENT, *MISTAKES):
        assert torch.allclose(wrong_gradients.attentions()[name](query, key, value), sdpa(query, key, value), atol=1e-5)


@pytest.mark.parametrize("name", MISTAKES)
def test_each_gradient_is_right_or_not_as_its_name_says(name: str) -> None:
    """With dropout, which some of them mistake; all draw from the same seed."""

    def gradients(of: str) -> list[Tensor]:
        tensors = [each.clone().requires_grad_() for each in torch.randn(3, 2, 4, 5, 8, generator=generator(0, "q"))]
        torch.manual_seed(3)
        output = wrong_gradients.attentions()[of](*tensors, dropout_p=0.3)
        return list(torch.autograd.grad((10 * output).square().sum(), tensors))

    right, wrong = gradients(RIGHT_GRADIENT), gradients(name)

    assert any(not torch.allclose(one, other, rtol=1e-4) for one, other in zip(right, wrong, strict=True))


@pytest.mark.slow
def test_a_gradient_without_its_mean_is_a_worse_curve() -> None:
    pytest.importorskip("sklearn")
    tasks = {task.name: task.with_epochs(2) for task in wrong_gradients.TASKS}
    assert {task.stands_in for task in tasks.values()} == {WRONG_GRADIENTS}

    right, wrong = (train(tasks[f"{WRONG_GRADIENTS}/{of}"], 0, sdpa) for of in (RIGHT_GRADIENT, "negates_key_gradient"))

    assert right.curve != wrong.curve
    assert train(tasks[f"{WRONG_GRADIENTS}/{RIGHT_GRADIENT}"], 0, sdpa).curve == right.curve
