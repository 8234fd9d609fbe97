"""Which object of a file is tested: what is bound under the contract's name, however it is bound, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets import Write, complaint

from attnsuite import registry
from attnsuite.registry import Loaded, find, load

BESIDE = """
import contextlib, functools, importlib, sys
import my_kernel


def reference(query, key, value):
    return "reference"


"""
KERNEL = """
def attention(query, key, value):
    return "attention"


class Kernel:
    def __call__(self, query, key, value):
        return "attention"
"""

TESTED = {
    "def": "def attention(query, key, value):\n    return 'attention'",
    "lambda": "attention = lambda query, key, value: 'attention'",
    "class": "class attention:\n    def __call__(self, query, key, value):\n        return 'attention'",
    "instance": "attention = my_kernel.Kernel()",
    "attribute": "attention = my_kernel.attention",
    "partial": "attention = functools.partial(my_kernel.attention)",
    "import": "from my_kernel import attention",
    "getattr": "attention = getattr(my_kernel, 'attention')",
    "try": "try:\n    from my_kernel import attention\nexcept ImportError:\n    attention = None",
    "except": "try:\n    from no_such import attention\nexcept ImportError:\n    attention = my_kernel.attention",
    "walrus": "if (attention := my_kernel.attention):\n    pass",
    "global": "def _bind():\n    global attention\n    attention = my_kernel.attention\n_bind()",
    "globals": "globals()['attention'] = my_kernel.attention",
    "setattr": "setattr(sys.modules[__name__], 'attention', my_kernel.attention)",
    "exec": "exec('attention = my_kernel.attention')",
    "star": "from my_kernel import *",
    "__getattr__": "def __getattr__(name):\n    return getattr(my_kernel, name)",
}
"""Ways to bind the contract's name."""
SWALLOWED = (
    "'attention' in kernel.py cannot be called: it is None; an import may have failed, and the file caught the error"
)
REFUSED = {
    "None": ("attention = None", f"{SWALLOWED}; "),
    "None by globals": ("globals()['attention'] = None", f"{SWALLOWED}; "),
    "failed import": (
        "try:\n    from no_such_kernel import attention\nexcept ImportError:\n    attention = None",
        f"{SWALLOWED}; ",
    ),
    "number": ("attention = 3", "'attention' in kernel.py cannot be called: it is of type int; "),
    "module": ("import my_kernel as attention", "'attention' in kernel.py cannot be called: it is of type module; "),
    "deleted": ("from my_kernel import attention\ndel attention", "kernel.py binds no attention when it is imported; "),
    "not reached": ("if not sys:\n    from my_kernel import attention", "kernel.py binds no attention when it is"),
    "program": (
        "if __name__ == '__main__':\n    attention = None",
        "kernel.py binds no attention when it is imported;",
    ),
    "types": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from my_kernel import attention",
        "kernel.py binds no attention when it is imported; ",
    ),
}
DECOYS = {
    "local": "if sys:\n    def _other():\n        attention = 3",
    "comprehension": "numbers = [attention for attention in range(3)]",
    "attribute": "sys.attention = None",
    "annotation": "attention: object",
    "class": "class _Settings:\n    attention = None",
}
"""What binds the contract's name elsewhere, or not at all when the file is imported."""


@pytest.fixture
def kernel(write: Write) -> Write:
    """Writes a file with a public function `reference` and the given statements."""
    write("my_kernel.py", KERNEL)

    def written(name: str, statements: str) -> Path:
        return write(name, f"{BESIDE}{statements}\n")

    return written


@pytest.mark.parametrize("way", TESTED)
def test_the_object_of_the_contract_s_name_is_tested_however_it_is_bound(kernel: Write, way: str) -> None:
    (declaration,) = find([str(kernel("kernel.py", TESTED[way]))])

    found = load(declaration)

    assert isinstance(found, Loaded)
    assert found.function(1, 2, 3) == "attention"
    assert registry.assumptions(found.declaration) == ""


@pytest.mark.parametrize("way", REFUSED)
def test_one_that_cannot_be_called_is_refused_and_no_other_function_tested(kernel: Write, way: str) -> None:
    statements, says = REFUSED[way]

    said = complaint(str(kernel("kernel.py", statements)))

    assert said.startswith(says)
    assert said.endswith("; bind attention to a function, or name another: kernel.py:FUNCTION")


@pytest.mark.parametrize("way", DECOYS)
def test_another_function_is_tested_where_nothing_has_the_contract_s_name_and_a_line_says_so(
    kernel: Write, way: str
) -> None:
    (declaration,) = find([str(kernel("kernel.py", DECOYS[way]))])

    found = load(declaration)

    assert isinstance(found, Loaded)
    assert found.function(1, 2, 3) == "reference"
    says = "attention/kernel is kernel.py:reference; the file binds no attention"
    assert registry.assumptions(found.declaration) == says


OBJECTS = """
import functools, torch
from torch import nn
from torch.nn.functional import softmax, scaled_dot_product_attention as sdpa

class Scaled(nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = factor

    def forward(self, query, key, value):
        return self.factor * value

class Settings:
    pass

settings = Settings()
"""


@pytest.mark.parametrize(
    ("statements", "name"),
    [
        ("mine = Scaled(2.0).eval()", "mine"),
        ("mine, number = Scaled(2.0).forward, 3", "mine"),
        ("mine = other = Scaled(2.0)", "mine"),
        ("mine = functools.partial(sdpa, is_causal=True)", "mine"),
        ("mine = lambda query, key, value: value", "mine"),
        ("_hidden = Scaled(2.0)\ndel Settings", "Scaled"),
        ("def mine(query, key, value): ...", "mine"),
    ],
)
def test_else_the_only_function_or_object_is_tested_and_else_the_only_class(
    write: Write, statements: str, name: str
) -> None:
    found = load(find([str(write("kernel.py", f"{OBJECTS}{statements}\n"))])[0])

    assert isinstance(found, Loaded)
    assert (found.declaration.function, found.declaration.guessed) == (name, True)


@pytest.mark.parametrize(
    ("statements", "contract", "says"),
    [
        ("one, other = Scaled(2.0), Scaled(3.0)", None, "has one, other: name one, as kernel.py:one"),
        ("def f(query, key, value): ...\nmine = Scaled(2.0)", None, "has f, mine: name one, as kernel.py:f"),
        ("", None, "has Scaled, Settings: name one, as kernel.py:Scaled"),
        ("del Scaled, Settings", None, "kernel.py has no function to test: define one"),
        ("bleu = lambda *given: 0", None, "kernel.py binds no attention, but bleu: name it, as kernel.py:bleu"),
        ("attention = Scaled(2.0)", "add_norm", "kernel.py binds no add_norm, but attention: name it, as kernel.py:"),
    ],
)
def test_what_is_not_clear_is_not_guessed(write: Write, statements: str, contract: str | None, says: str) -> None:
    assert says in complaint(str(write("kernel.py", f"{OBJECTS}{statements}\n")), contract=contract)
