"""Writes docs/site/fields.md: every field of every file of a run, from the structs that read the files."""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, structs

from attnsuite.model import (
    ClaimResult,
    ContractFacts,
    Facts,
    FindingFacts,
    Machine,
    Measurement,
    Outcome,
    Repetition,
    Run,
    TrainingRow,
    WorkloadFacts,
)
from attnsuite.results.history import Line

PAGE = Path(__file__).parents[1] / "docs" / "site" / "fields.md"
TEXT = """# Fields: what is in each file of a run?

`python scripts/fields.py` writes this page from the classes that read the files
([rows.py](../../suite/model/rows.py), [run.py](../../suite/model/run.py)); [results](../results.md) says how to load
them. A field at its default (empty, none) is not written. Numbers have six significant digits, those of outcomes three.
JSON has no infinity: `1e308` stands for it.
"""
FILES = {
    "run.json": (Run, Machine),
    "outcomes.jsonl.gz": (Outcome,),
    "measurements.jsonl.gz": (Measurement,),
    "trainings.jsonl.gz": (TrainingRow,),
    "claims.jsonl.gz": (ClaimResult,),
    "repeats.jsonl.gz": (Repetition,),
    "facts.json.gz": (Facts, ContractFacts, WorkloadFacts, FindingFacts),
    "history.csv": (Line,),
}
SHARED = {
    "implementation": "full name of the implementation: contract/name",
    "contract": "name of the contract",
    "dtype": "float64, float32, float16, bfloat16; * in a row about all",
    "device": "cpu or cuda",
    "status": "the status in one word",
    "detail": "the reason in words, at most 2,000 characters",
    "seconds": "duration in seconds",
    "machine": "the machine, which is also the name of its folder",
    "run": "id of the run, which is also the name of its folder",
    "workload": "name of the workload; * in a row about all",
    "started": "start (UTC, ISO 8601)",
    "finished": "end (UTC, ISO 8601); empty while the run goes on",
    "commit": "commit of the suite's repository, -dirty with uncommitted changes",
}
"""Meanings of fields that several files have, or that have no note in the source."""
OWN = {
    Outcome: {
        "case": "name of the test case; * in a row about all",
        "error_ratio": "largest error, divided by its tolerance; 1e308 is infinite",
        "known": "id of the known bug that records this failure, or the expected failure",
        "reason": "why there is no result, in one word",
    },
    Measurement: {"detail": "why there is no time, or what limits it; at most 2,000 characters"},
    TrainingRow: {"task": "name of the task", "seed": "seed of the training", "curve": "mean loss of each epoch"},
    ClaimResult: {
        "claim": "name of the claim",
        "document": "id of the source document",
        "section": "section of the document",
        "samples": "numbers as they were measured: one per round, draw or seed",
        "evidence": "exact, drawn, trained or timed",
        "holds": "holds, does not hold, unclear, raised or missing",
        "low": "lower end of the 99 % interval of the median; the number itself where it is exact",
    },
    Run: {
        "id": "id of the run, which is also the name of its folder",
        "machine": "the machine, see the next table",
        "versions": "versions of Python and of the libraries, by name",
        "sources": "hash of the file of each implementation",
        "suite": "hash of the suite's own sources",
        "request": "the request in words",
        "facts": "not in this file: see facts.json.gz",
    },
    Machine: {
        "name": "name of the machine's folder",
        "processor": "model of the processor",
        "cores": "number of physical cores",
        "threads": "number of logical cores",
        "memory_bytes": "bytes of memory",
        "system": "operating system",
        "accelerators": "names of the GPUs",
    },
    Repetition: {"threads": "number of threads", "place": "0 for the baseline, 1, 2, … for identical implementations"},
    Facts: {"contracts": "each contract, see the next table"},
    FindingFacts: {"words": "what is wrong, in words"},
    Line: {
        "source": "hash of the implementation's file",
        "dtype": "as in measurements",
        "threads": "as in measurements",
        "direction": "as in measurements",
        "cache": "as in measurements",
        "low": "lower end of the interval of the median, in seconds",
        "high": "upper end of the interval of the median, in seconds",
        "ratio_low": "lower end of the interval of the ratio",
        "ratio_high": "upper end of the interval of the ratio",
        "tests": "number of tests; 0 in a line about a workload",
    },
    WorkloadFacts: {"group": "group of the workload", "why": "why it is timed"},
}


WORDS = {str: "text", bool: "boolean", int: "integer", float: "number", tuple: "list", (Mapping, Struct): "object"}


@cache
def notes(struct: type) -> dict[str, str]:
    """The notes below the fields in the source of a struct."""
    (definition,) = ast.parse(inspect.getsource(struct)).body
    assert isinstance(definition, ast.ClassDef)
    results, last = {}, ""
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and last:
            results[last] = " ".join(inspect.cleandoc(str(node.value.value)).split()).rstrip(".")
            last = ""
    return results


def kind(annotation: Any) -> str:
    """The type of a field in words of JSON."""
    options = [item for item in get_args(annotation) if item is not NoneType]
    plain = options[0] if get_origin(annotation) in (Union, UnionType) else annotation
    plain = get_origin(plain) or plain
    return next((word for types, word in WORDS.items() if isinstance(plain, type) and issubclass(plain, types)), "any")


def meaning(struct: type, name: str) -> str:
    """Return what a field of a struct means, or empty."""
    return OWN.get(struct, {}).get(name) or notes(struct).get(name) or SHARED.get(name, "")


def table(struct: type) -> str:
    """Return the rows of a struct in Markdown."""
    hints = get_type_hints(struct, include_extras=False)
    lines = [f"| {struct.__name__} | type | unit and meaning |", "|---|---|---|"]
    for field in structs.fields(struct):
        text = meaning(struct, field.name).replace("|", "\\|").replace(". - ", ". ").replace(" - ", ". ")
        lines.append(f"| `{field.name}` | {kind(hints[field.name])} | {text} |")
    return "\n".join(lines)


def tables() -> str:
    """Return all of the page below its first lines."""
    return "\n\n".join(f"## {name}\n\n" + "\n\n".join(map(table, kinds)) for name, kinds in FILES.items())


if __name__ == "__main__":
    PAGE.write_text(f"{TEXT}\n{tables()}\n", "utf-8")
    sys.stdout.write(f"{PAGE}\n")
