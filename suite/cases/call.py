"""A call of a function as data, and what came back from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from attnsuite.model import Status

if TYPE_CHECKING:
    from torch import Tensor

Conventions = Mapping[str, Any]

ALL_CORES = 0
"""As a number of threads: as many as there are cores."""


@dataclass(frozen=True)
class Call:
    """One call of a function, as data: tensors with their layout, options, and what is wanted of it.

    Tensors named in `positional` are passed by position in that order, all others and the options by keyword.
    """

    tensors: Mapping[str, Tensor]
    options: Mapping[str, float | bool | str | None] = field(default_factory=dict)
    positional: tuple[str, ...] = ("query", "key", "value")
    gradient_of: tuple[str, ...] = ()
    """The tensors whose gradients are wanted; of a training step the tensors or weights that it changes."""
    output_gradient: Tensor | None = None
    seed: int | None = None
    grad_mode: bool = True
    inference: bool = False
    """Made under torch.inference_mode."""
    default_dtype: str | None = None
    """Torch's default dtype while the call is made; None: as it is."""
    threads: int | None = None
    """How many threads PyTorch may compute with, backward included; None: as many as it may already."""
    own_thread: bool = False
    at_once: bool = False
    """Made at the same moment as the calls beside it that say so too, each in a thread of its own, over and over until
    all have met. Of answers that differ, one that does is taken."""
    requires_gradient: tuple[str, ...] = ()
    """Inputs that require a gradient which this call does not ask for: a later one does, by `backward_of`."""
    backward_of: int | None = None
    """Nothing is called: the backward pass of an earlier call of the question, counted from 0, is run (again), with
    this call's output gradient. The reply's output is that of the earlier call, as it is by now."""
    written: bool = False
    """The output is written to afterwards, as its owner may."""
    same_storage: bool = False
    """Write these numbers into the tensors of the call before: other contents behind the same pointers."""
    same_tensor: tuple[str, ...] = ()
    """These inputs, of equal numbers, are one tensor that is given under several names."""
    config: Mapping[str, Any] | None = None
    """Where it is given, the function is a factory, `factory(config, weights)`, and what it returns is called."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    making: Mapping[str, Any] = field(default_factory=dict)
    """What the factory is given by keyword beside them; calls of the model it has made have it too."""
    model_of: int | None = None
    """Call the model of an earlier call of the question, counted from 0; config and weights are not given again."""
    probed: bool = False
    """Give a probe as `attention`: it records how it is called, and answers the negative of what an attention does."""
    operators: bool = False
    """The reply says which operators ran."""

    @property
    def arguments(self) -> frozenset[str]:
        """The parameters that a function needs to take this call."""
        plug = {"attention"} if self.probed else frozenset[str]()
        given = frozenset(self.options) | frozenset(self.making)
        return frozenset(self.tensors) - frozenset(self.positional) | given | plug

    @property
    def need_weights(self) -> bool:
        """Whether attention weights are due beside the output."""
        return bool(self.options.get("need_weights") or self.making.get("need_weights"))


Calls = tuple[Call, ...]
"""The calls of one case, in order."""


class NoReply(Protocol):
    """Why there are no replies to a question: the library is missing, the import raised, the process died or hung."""

    @property
    def status(self) -> Status: ...

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Reply:
    """What came back from one call. Tensors are on the CPU, snapshots taken before anything else ran."""

    output: Tensor | None = None
    kind: str = "Tensor"
    """The type of what was returned, in words, when it is no tensor."""
    no_model: bool = False
    """A factory returned nothing that can be called."""
    pair: bool = False
    """It was returned as the first of two, `(output, weights)`."""
    weights: Tensor | None = None
    """The weights that were returned beside it."""
    weights_name: str = ""
    """Their name, where they came in a dictionary."""
    device: str = "cpu"
    gradients: Mapping[str, Tensor | None] = field(default_factory=dict)
    raised: str = ""
    """`ValueError: what it said`, or empty."""
    declined: str = ""
    """The reason given with NotImplementedError, or empty."""
    changed: tuple[str, ...] = ()
    """Inputs whose bits differ after the call."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the inputs after the call, by which whoever has sent them finds out."""
    aliased: tuple[str, ...] = ()
    """Inputs whose storage the output shares."""
    overwritten: bool = False
    """A later call of the same question changed this output."""
    attended: tuple[str, ...] = ()
    """How a probe was called, a line for each call: `Attended` of plugged.py in writing."""
    attention_weights: Mapping[str, Tensor | None] = field(default_factory=dict)
    """What came beside the output where it was asked for, by name; of a lone tensor the name is "". None: no tensor."""
    weights_overwritten: tuple[str, ...] = ()
    """The attention weights that a later call of the same question changed."""
    gradients_overwritten: tuple[str, ...] = ()
    """The inputs whose gradients a later call of the same question changed."""
    operators: tuple[str, ...] = ()
    """The operators that ran, where the call asked for them."""
    seconds: float = 0.0


Replies = tuple[Reply, ...]
"""What came back from the calls of one case, in order."""
