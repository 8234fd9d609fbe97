"""Plugs: an implementation of attention, given to a function or factory that takes a parameter `attention`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from attnsuite.contracts import contract, names
from attnsuite.registry.declaration import Declaration

PARAMETER = "attention"
"""The name of the parameter that takes a plug, and of the contract that the plug keeps."""


def with_each_backend(found: Iterable[Declaration]) -> Iterator[Declaration]:
    """Each implementation that takes a plug, with each attention plugged in."""
    found = list(found)
    for host in filter(takes_backend, found):
        for plug in found:
            if plug.contract == PARAMETER:
                yield with_backend(host, plug)


def takes_backend(declaration: Declaration) -> bool:
    """Whether an attention can be plugged into it."""
    return declaration.backend is None and not declaration.broken and PARAMETER in (declaration.parameters or ())


def may_take_backend(declaration: Declaration) -> bool:
    """Whether a user may ask for a plug in it: it takes one, or that is known only after its import."""
    if declaration.contract == PARAMETER or declaration.backend is not None:
        return False
    return bool(declaration.broken) or declaration.parameters is None or PARAMETER in declaration.parameters


def with_backend(host: Declaration, plug: Declaration) -> Declaration:
    """The host with the plug in it, named like `transformer/eager+chunked`. It lacks what the plug lacks.

    Its parameter `attention` stays: a question may give it a probe instead of the plug.
    """
    known = contract(host.contract).features if host.contract in names() else {}
    lacks = {feature: reason for feature, reason in gaps(plug).items() if feature in known}
    return replace(
        host,
        name=f"{host.name}+{plug.name}",
        requires=tuple(dict.fromkeys((*host.requires, *plug.requires))),
        lacks={**lacks, **host.lacks},
        compiles=host.compiles or plug.compiles,
        summary="; ".join(filter(None, (host.summary.rstrip("."), f"attention is that of {plug.full_name}."))),
        broken=host.broken or plug.broken,
        backend=plug,
    )


def gaps(plug: Declaration) -> dict[str, str]:
    """The features that an attention lacks by its signature, its declarations and its conventions, with reasons."""
    found: dict[str, str] = {}
    usual = {name: choices[0] for name, choices in contract(PARAMETER).conventions.items()}
    for parameter, features in contract(PARAMETER).parameter_features.items():
        if plug.parameters is not None and parameter not in plug.parameters:
            found |= dict.fromkeys(features, f"{plug.full_name} takes no {parameter}")
    for convention, chosen in plug.conventions.items():  # a convention has the name of its feature
        if convention in usual and chosen != usual[convention]:
            found[convention] = f"the convention {convention} of {plug.full_name} is {chosen}"
    return found | {feature: f"{plug.full_name}: {reason}" for feature, reason in plug.lacks.items()}
