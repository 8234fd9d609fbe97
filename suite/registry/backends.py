"""Combinations of implementations: a function or factory with a parameter `attention`, and an attention for it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from attnsuite.contracts import contract, names
from attnsuite.registry.declaration import Declaration

PARAMETER = "attention"
"""The name of the parameter that takes a backend, and of the backend's contract."""


def with_each_backend(declarations: Iterable[Declaration]) -> Iterator[Declaration]:
    """Each implementation that takes a backend, with each attention as its backend."""
    declarations = list(declarations)
    for host in filter(takes_backend, declarations):
        for backend in declarations:
            if backend.contract == PARAMETER:
                yield with_backend(host, backend)


def takes_backend(declaration: Declaration) -> bool:
    """Whether an attention can be its backend."""
    return declaration.backend is None and not declaration.broken and PARAMETER in (declaration.parameters or ())


def may_take_backend(declaration: Declaration) -> bool:
    """Whether a user may name a backend for it: it takes one, or its parameters are unknown before its import."""
    if declaration.contract == PARAMETER or declaration.backend is not None:
        return False
    return bool(declaration.broken) or declaration.parameters is None or PARAMETER in declaration.parameters


def with_backend(host: Declaration, backend: Declaration) -> Declaration:
    """The host with this backend, named like `transformer/eager+chunked`. It lacks what the backend lacks.

    Its parameter `attention` stays: a test may give it a probe in place of the backend.
    """
    known = contract(host.contract).features if host.contract in names() else {}
    lacks = {feature: reason for feature, reason in gaps(backend).items() if feature in known}
    return replace(
        host,
        name=f"{host.name}+{backend.name}",
        requires=tuple(dict.fromkeys((*host.requires, *backend.requires))),
        lacks={**lacks, **host.lacks},
        compiles=host.compiles or backend.compiles,
        summary="; ".join(filter(None, (host.summary.rstrip("."), f"attention is that of {backend.full_name}."))),
        broken=host.broken or backend.broken,
        backend=backend,
    )


def parts(declaration: Declaration) -> list[Declaration]:
    """The declaration alone; or, if it has a backend, the declarations of host and backend."""
    if declaration.backend is None:
        return [declaration]
    name = declaration.name.removesuffix(f"+{declaration.backend.name}")
    return [replace(declaration, name=name, backend=None), declaration.backend]


def gaps(backend: Declaration) -> dict[str, str]:
    """The features that an attention lacks by its signature, its declarations and its conventions, with reasons."""
    lacks: dict[str, str] = {}
    usual = {name: choices[0] for name, choices in contract(PARAMETER).conventions.items()}
    for parameter, features in contract(PARAMETER).parameter_features.items():
        if backend.parameters is not None and parameter not in backend.parameters:
            lacks |= dict.fromkeys(features, f"{backend.full_name} takes no {parameter}")
    for convention, chosen in backend.conventions.items():  # a convention has the name of its feature
        if convention in usual and chosen != usual[convention]:
            lacks[convention] = f"the convention {convention} of {backend.full_name} is {chosen}"
    return lacks | {feature: f"{backend.full_name}: {reason}" for feature, reason in backend.lacks.items()}
