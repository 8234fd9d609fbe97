"""A call of a function as data, and the reply to it."""

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
    """One call of a function: tensors with their layout, options, and what is requested.

    Tensors named in `positional` are passed by position in that order, all others and the options by keyword.
    """

    tensors: Mapping[str, Tensor]
    options: Mapping[str, float | bool | str | None] = field(default_factory=dict)
    positional: tuple[str, ...] = ("query", "key", "value")
    gradient_of: tuple[str, ...] = ()
    """The tensors whose gradients are requested; of a training step the tensors or weights that it changes."""
    output_gradient: Tensor | None = None
    second: str = ""
    """The name of a second output: the function returns `(output, lse)`. The reply has it in `attention_weights`."""
    second_gradient: Tensor | None = None
    """The gradient of the second output; None where only that of the output is passed backward."""
    seed: int | None = None
    grad_mode: bool = True
    inference: bool = False
    """Runs under torch.inference_mode."""
    default_dtype: str | None = None
    """PyTorch's default dtype during the call; None: unchanged."""
    threads: int | None = None
    """The number of PyTorch's threads, backward included; None: unchanged."""
    own_thread: bool = False
    at_once: bool = False
    """Runs at the same time as neighbouring calls with this mark, each in a thread of its own, repeatedly until all
    have met. If the outputs differ, one that differs is the reply."""
    state: tuple[str, ...] = ()
    """Inputs that the call may write in place: the reply has them as they are afterwards."""
    requires_gradient: tuple[str, ...] = ()
    """Inputs whose gradient a later call requests, by `backward_of`."""
    parameters: tuple[str, ...] = ()
    """Inputs that are passed as an `nn.Parameter`."""
    backward_of: int | None = None
    """Instead of a call, the backward pass of an earlier call, counted from 0, runs (again), with this call's output
    gradient. The reply's output is that of the earlier call, as it is now."""
    written: bool = False
    """The output is written to afterwards, as its owner may."""
    same_storage: bool = False
    """The numbers are written into the tensors of the call before: other contents behind the same pointers."""
    same_tensor: tuple[str, ...] = ()
    """Inputs of equal numbers that are one tensor under several names."""
    config: Mapping[str, Any] | None = None
    """With a config the function is a factory, `factory(config, weights)`, and its result is called."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    factory_options: Mapping[str, Any] = field(default_factory=dict)
    """Further keyword arguments of the factory; later calls of its model have them too."""
    model_of: int | None = None
    """The model of an earlier call, counted from 0, is called; config and weights are not repeated."""
    probed: bool = False
    """A probe is passed as `attention`: it records its calls, and returns the negative of an attention's output."""
    operators: bool = False
    """The reply names the operators that ran."""

    @property
    def arguments(self) -> frozenset[str]:
        """The parameters that a function needs for this call."""
        backend = {"attention"} if self.probed else frozenset[str]()
        named = frozenset(self.options) | frozenset(self.factory_options)
        return frozenset(self.tensors) - frozenset(self.positional) | named | backend

    @property
    def need_weights(self) -> bool:
        """Whether attention weights, or the numbers of a step, are requested."""
        options = self.options.get("need_weights") or self.options.get("step")
        return bool(options or self.factory_options.get("need_weights"))


Calls = tuple[Call, ...]
"""The calls of one case, in order."""


class NoReply(Protocol):
    """Why a test has no replies: a missing library, an error at import, a crash, a timeout."""

    @property
    def status(self) -> Status:
        """The status of a test without a reply."""

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Reply:
    """The reply to one call. Tensors are on the CPU, snapshots taken before anything else ran."""

    output: Tensor | None = None
    kind: str = "Tensor"
    """The type of the output in words, if it is not a tensor."""
    no_model: bool = False
    """The result of a factory cannot be called."""
    pair: bool = False
    """The output was the first of two, `(output, weights)`."""
    weights: Tensor | None = None
    """The weights of such a pair."""
    weights_name: str = ""
    """Their name, if they were in a dictionary."""
    device: str = "cpu"
    gradients: Mapping[str, Tensor | None] = field(default_factory=dict)
    error: str = ""
    """`ValueError: its message`, or empty."""
    unsupported: str = ""
    """The reason of a NotImplementedError, or empty."""
    changed: tuple[str, ...] = ()
    """Inputs whose bits differ after the call."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the inputs after the call, for the sender to compare."""
    state: Mapping[str, Tensor] = field(default_factory=dict)
    """The inputs of the call's `state` after it, each with its whole storage."""
    aliased: tuple[str, ...] = ()
    """Inputs whose storage the output shares."""
    overwritten: bool = False
    """A later call of the test changed this output."""
    attended: tuple[str, ...] = ()
    """The calls of a probe, each a `BackendCall` in writing."""
    attention_weights: Mapping[str, Tensor | None] = field(default_factory=dict)
    """Requested attention weights by name, "" for a single tensor; or the second output. None: not a tensor."""
    weights_overwritten: tuple[str, ...] = ()
    """The attention weights that a later call of the test changed."""
    gradients_overwritten: tuple[str, ...] = ()
    """The inputs whose gradients a later call of the test changed."""
    operators: tuple[str, ...] = ()
    """The operators that ran, if the call requested them."""
    seconds: float = 0.0


Replies = tuple[Reply, ...]
"""The replies to the calls of one case, in order."""
