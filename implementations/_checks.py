"""Checks of tensors, and of the configs, weights and tokens of models. Each raises ValueError in one line."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]


def check_axes(**tensors: tuple[Tensor | None, str]) -> dict[str, Any]:
    """The size of each axis by name, for tensors with the names of their axes: `query=(query, "b l e")`.

    "..." in front are any leading axes, equal for all tensors; None is left out. Raises ValueError for another number
    of axes, and for two sizes of one name.
    """
    sizes: dict[str, Any] = {}
    for name, (tensor, axes) in tensors.items():
        if tensor is None:
            continue
        names, shape = axes.split(), tuple(tensor.shape)
        if names[0] == "...":
            leading = max(0, len(shape) - len(names) + 1)
            shape = (shape[:leading], *shape[leading:])
        expected = " ".join(f"{axis}={sizes[axis]}" if axis in sizes else axis for axis in names)
        if len(shape) == len(names):
            sizes = {**dict(zip(names, shape, strict=True)), **sizes}
        if [sizes.get(axis) for axis in names] != [*shape]:
            rank = f"{len(names) - 1} or more" if names[0] == "..." else len(names)
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected the axes {expected} (rank {rank})")
    return sizes


def check_mask(mask: Tensor | None, shape: tuple[int, ...]) -> None:
    """A boolean mask that broadcasts to scores of this shape, or None."""
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise ValueError(f"attn_mask is {mask.dtype}, expected torch.bool")
    pairs = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(size not in (1, full) for size, full in pairs):
        raise ValueError(f"attn_mask has shape {tuple(mask.shape)}, expected one that broadcasts to {tuple(shape)}")


def check_integers(config: Config, names: Sequence[str], least: int = 1) -> None:
    """Entries of a config that are integers from `least`."""
    for name in names:
        if type(config.get(name)) is not int or config[name] < least:
            raise ValueError(f"{name} is {config.get(name)!r}, expected an integer from {least}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """A word of a config."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}, expected one of {len(choices)} words: {', '.join(choices)}")


def check_mappings(**mappings: Any) -> None:
    """Config and weights are mappings by name."""
    for name, value in mappings.items():
        if not isinstance(value, Mapping):
            raise ValueError(f"{name} is of type {_kind(value)}, expected a mapping by name")


def check_weights(weights: Weights, shapes: Mapping[str, tuple[int, ...]], like: str) -> torch.dtype:
    """Weights of these shapes, in the floating dtype of the weight `like`, which is returned."""
    for name, shape in shapes.items():
        if name not in weights:
            raise ValueError(f"the weights lack {name}, expected with shape {shape}")
        check_tensor(name, weights[name])
        if tuple(weights[name].shape) != shape:
            raise ValueError(f"{name} has shape {tuple(weights[name].shape)}, expected {shape}")
    dtype = weights[like].dtype
    if not dtype.is_floating_point:
        raise ValueError(f"{like} is {dtype}, expected a floating dtype such as torch.float32")
    for name, tensor in weights.items():
        if name not in shapes:
            raise ValueError(f"the weights have {name}, which is not one of the {len(shapes)} of this config")
        if tensor.dtype != dtype:
            raise ValueError(f"{name} is {tensor.dtype}, expected {dtype} as {like} is")
    return dtype


def check_tensor(name: str, value: object) -> None:
    """A tensor of PyTorch."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} is of type {_kind(value)}, expected a torch.Tensor")


def check_sentences(config: Config, source: Tensor, lengths: Tensor, target: Tensor | None) -> None:
    """Tokens, b s and b t, in their vocabularies, and lengths within the source, b; all int64."""
    for name, tensor, axes in (("source", source, 2), ("lengths", lengths, 1), ("target", target, 2)):
        if name == "target" and tensor is None:
            continue
        check_tensor(name, tensor)
        if tensor.dtype != torch.int64:
            raise ValueError(f"{name} is {tensor.dtype}, expected torch.int64")
        if tensor.dim() != axes:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {axes} axes")
        if len(tensor) != len(source):
            raise ValueError(f"{name} has {len(tensor)} items, expected {len(source)} as source has")
        if name != "lengths":
            _check_range(f"a token of {name}", tensor, 0, config[f"{name}_vocab"] - 1)
    if len(source) and not source.shape[1]:
        raise ValueError(f"source has shape {tuple(source.shape)}, expected at least 1 token")
    _check_range("a length", lengths, 1, source.shape[1])


def _check_range(name: str, tensor: Tensor, least: int, most: int) -> None:
    outside = tensor[(tensor < least) | (tensor > most)]
    if outside.numel():
        raise ValueError(f"{name} is {outside[0].item()}, expected {least} to {most}")


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
