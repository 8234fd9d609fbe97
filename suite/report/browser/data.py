"""All machines → the data of the page, in which the script finds what it shows."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from attnsuite.model import ContractFacts, Machine, escaped
from attnsuite.report import facts, provenance
from attnsuite.report.benchmark.views import Material
from attnsuite.report.browser import history, outcomes, timings

HASH = 16
"""Characters of the hash of a source that are shown."""


def data(materials: Mapping[str, Material], past: Sequence[history.Line] = ()) -> dict[str, Any]:
    """The data of these machines, by name."""
    names = outcomes.Names()
    labels = short_names({name: of.recorded.run.machine for name, of in materials.items()})
    machines = [_machine(of, labels[name], names) for name, of in materials.items()]
    words = {key: text for of in materials.values() for key, text in facts.findings(of.recorded).items()}
    return {
        "machines": machines,
        "findings": dict(sorted(words.items())),
        "contracts": _contracts(list(materials.values())),
        "history": history.lines(past),
        "implementations": names.implementations.words,
        "cases": names.cases.words,
        "details": names.details.words,
    }


def _machine(of: Material, label: str, names: outcomes.Names) -> dict[str, Any]:
    recorded = of.recorded
    runs = list(recorded.runs)
    again = {name: [*map(escaped, declared.again.get(name, ()))] for name, declared in facts.declared(recorded).items()}
    newest = recorded.run
    return {
        "name": recorded.machine,
        "short": label,
        "what": _what(newest.machine),
        "runs": [
            {
                "id": run.id, "date": provenance.date(run), "commit": run.commit, "versions": dict(run.versions),
                "sources": {name: hashed[:HASH] for name, hashed in run.sources.items()},
            }
            for run in recorded.runs.values()
        ],
        "again": {name: words for name, words in again.items() if words},
        "blocks": outcomes.columns(recorded.rows, runs, names),
        "tables": timings.timed(of.tables, runs, names, again),
    }  # fmt: skip


def short_names(machines: Mapping[str, Machine]) -> dict[str, str]:
    """A name of each machine for lists: its accelerators, or its processor and cores.

    Machines with equal names get the end of their folder's name, too.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for folder, machine in machines.items():
        alike[_short(machine)].append(folder)
    ends = {folder: folder.removeprefix(min(same, key=len)).strip("-") for same in alike.values() for folder in same}
    return {folder: ", ".join(filter(None, (_short(of), ends[folder]))) for folder, of in machines.items()}


def _short(machine: Machine) -> str:
    if machine.accelerators:
        return ", ".join(
            f"{count} × {name}" if count > 1 else name for name, count in Counter(machine.accelerators).items()
        )
    processor = re.sub(r"\((R|TM)\)|\b(Processor|CPU)\b", "", machine.processor)
    return f"{' '.join(processor.split()).replace(' ,', ',')}, {_cores(machine)}"


def _cores(machine: Machine) -> str:
    return f"{machine.cores} core{'s' * (machine.cores != 1)}"


def _what(machine: Machine) -> str:
    """The machine in words."""
    accelerators = f", {', '.join(machine.accelerators)}" if machine.accelerators else ""
    return f"{machine.processor}, {_cores(machine)}, {machine.memory_bytes / 2**30:.0f} GiB{accelerators}"


def _contracts(materials: Sequence[Material]) -> dict[str, Any]:
    """What cases of each contract need, and why they are asked, of the machine whose runs note most of them."""
    found: dict[str, ContractFacts] = {}
    for of in materials:
        for name, noted in facts.contracts(of.recorded).items():
            found[name] = max(found.get(name, noted), noted, key=lambda each: (len(each.why), len(each.cases)))
    return {
        name: {
            "features": {
                each: words for each, words in of.features.items() if any(each in n for n in of.cases.values())
            },
            "needs": {case: list(needs) for case, needs in of.cases.items() if needs},
            "why": dict(of.why),
        }
        for name, of in sorted(found.items())
    }


def as_json(of: Mapping[str, Any]) -> str:
    """The data as JSON that ends no element of a page, whatever texts are in it."""
    text = json.dumps(of, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode(errors="backslashreplace").decode()
