"""What is counted is right where it can be said by hand, and changes where the computation does."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.documents.claims.counting import dependence, flops, largest_bytes, layers_until, longest_chain
from attnsuite.documents.claims.layers import LAYERS, Sizes, inputs


def test_flops_are_two_for_each_multiplication() -> None:
    left, right = torch.zeros(3, 5), torch.zeros(5, 7)

    assert flops(lambda: left @ right) == 2 * 3 * 5 * 7
    assert flops(lambda: left + left) == 0


def test_layers_have_the_flops_of_the_document_s_table() -> None:
    of = Sizes(length=16, width=8, kernel=5)
    due = {"convolution": 5 * 16 * 8**2, "recurrence": 2 * 16 * 8**2, "self_attention": 2 * 16**2 * 8}

    assert {name: flops(lambda make=make: make(of)(inputs(of))) for name, make in LAYERS.items()} == {
        name: 2 * products for name, products in due.items()
    }


def test_the_longest_chain_is_the_products_that_wait_for_each_other() -> None:
    x = torch.eye(3, requires_grad=True)

    assert longest_chain(x @ x @ x @ x) == 3
    assert longest_chain((x @ x) + (x @ x)) == 1
    assert longest_chain((x @ x) @ (x @ x)) == 2


def test_the_longest_chain_to_one_input_leaves_out_ways_that_end_elsewhere() -> None:
    x, late = (torch.eye(3, requires_grad=True) for _ in range(2))
    output = (x @ x @ x @ x) @ late

    assert longest_chain(output) == 4
    assert longest_chain(output, late) == 1


def test_a_chain_of_hundreds_of_products_is_counted() -> None:
    x = total = torch.eye(2, requires_grad=True)
    for _ in range(1500):
        total = total @ x

    assert longest_chain(total) == 1500


def shifted(x: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(x[:1]), x[:-1]])


def test_dependence_is_where_the_jacobian_is_not_zero() -> None:
    x = torch.ones(4, 2, dtype=torch.float64)

    assert dependence(lambda x: x * 2, x).tolist() == torch.eye(4).bool().tolist()
    assert dependence(lambda x: x.cumsum(0), x).tolist() == torch.ones(4, 4).tril().bool().tolist()
    assert dependence(shifted, x).tolist() == torch.ones(4).diag()[[3, 0, 1, 2]].tril(-1).bool().tolist()


def test_layers_are_counted_until_all_is_seen_or_given_up() -> None:
    x = torch.ones(5, 2, dtype=torch.float64)

    def everything(sees: Tensor) -> bool:
        return bool(sees.all())

    assert layers_until(everything, lambda x: x + shifted(x), x, most=8) == 9, "the first never sees the last"
    assert layers_until(lambda sees: bool(sees[4, 0]), lambda x: x + shifted(x), x, most=8) == 4


def test_the_product_of_dependences_is_the_dependence_of_layers_one_after_the_other() -> None:
    of = Sizes(length=9, width=2)
    layer, x = LAYERS["convolution"](of, torch.float64), inputs(of, torch.float64)
    once = dependence(layer, x).double()

    assert torch.equal(once @ once > 0, dependence(lambda x: layer(layer(x)), x))


def test_the_largest_tensor_is_seen_wherever_it_is_made() -> None:
    x = torch.ones(10, 3)

    assert largest_bytes(lambda: (x @ x.T).sum()) == 10 * 10 * 4
    assert largest_bytes(lambda: x.double().sum()) == 10 * 3 * 8
