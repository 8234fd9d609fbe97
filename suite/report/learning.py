"""What was learned → learning.md: scores beside the documents' and beside simpler methods', and loss curves."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from attnsuite.model import WRONG_GRADIENTS, Learned
from attnsuite.report import provenance, wrong_gradients
from attnsuite.report.cells import NOTHING, Cell, code, number, plain
from attnsuite.report.page import (
    Block,
    Chart,
    Column,
    Mark,
    Page,
    Panel,
    Picture,
    Section,
    Table,
    blocks,
    note,
    section,
)
from attnsuite.report.page import table as table_of
from attnsuite.report.units import duration
from attnsuite.results.store import Recorded

LONGEST_FACT = 600
"""Characters of a config in words."""
CURVES = "learning-"
"""What the files of loss curves begin with."""


def learning(recorded: Recorded, charts: Sequence[Chart] = ()) -> Page:
    """The page: a section for each task. `charts` are those that lie beside it."""
    run = recorded.trained_runs[-1]
    of_tasks = (_task(task, found, charts) for task, found in by_task(recorded).items())
    opening = note("Same seed, same machine: same curve. How tasks are trained is in docs/learning.md.")
    shown = blocks(provenance.run_table(run), opening, of_tasks)
    return Page(f"Learning on {recorded.machine}", shown, {"learning": _numbers(recorded)})


def by_task(recorded: Recorded) -> dict[str, list[tuple[str, Learned]]]:
    """The trainings of each task, with the ids of their runs."""
    found: dict[str, list[tuple[str, Learned]]] = defaultdict(list)
    for identity, learned in recorded.trained:
        found[learned.task].append((identity, learned))
    return dict(sorted(found.items()))


def pictures(recorded: Recorded) -> dict[str, Picture]:
    """The loss curves of each task, by the name of their file."""
    runs = recorded.trained_runs
    found = {}
    for task, trained in by_task(recorded).items():
        learned = [each for _, each in trained if len(each.curve) > 1 and min(each.curve) > 0]
        if learned:
            where = ", ".join(
                filter(None, (runs[-1].machine.processor, provenance.torch(runs), provenance.dates(runs)))
            )
            panel = Panel("", tuple(_marks(learned)))
            found[chart_file(task)] = Picture("lines", f"{task}: loss", plain(where), "epoch", "loss", (panel,))
    return found


def chart_file(task: str) -> str:
    """The file of a task's loss curves."""
    return f"{CURVES}{re.sub(r'[^a-z0-9]+', '-', task.lower()).strip('-')[:60]}.svg"


def _marks(learned: Sequence[Learned]) -> Iterator[Mark]:
    """A line for each training; those of one implementation look alike."""
    styles = {name: place for place, name in enumerate(dict.fromkeys(each.implementation for each in learned), 1)}
    for each in learned:
        label = plain(f"{each.implementation.rpartition('/')[2]}, seed {each.seed}", 40)
        points = tuple((float(epoch), loss) for epoch, loss in enumerate(each.curve, 1))
        yield Mark(label, styles[each.implementation], points, label)


def _task(task: str, trained: Sequence[tuple[str, Learned]], charts: Sequence[Chart]) -> Section:
    learned = [each for _, each in trained]
    shown = [chart for chart in charts if chart.file == chart_file(task)]
    compared = wrong_gradients.comparison(learned) if task == WRONG_GRADIENTS else ()
    return section(task, compared, _scores(learned), _without(learned), shown, _configs(learned))


def _scores(learned: Sequence[Learned]) -> Table:
    """A row for each training, then the documents' scores, then simpler methods'."""
    names = list(dict.fromkeys(name for each in learned for name in (*each.scores, *each.printed)))
    heads: list[str | Column] = [
        "trained",
        Column("seed", right=True),
        Column("epochs", right=True),
        Column("loss", right=True),
    ]
    columns = [*heads, *(Column(name, right=True) for name in names), Column("processor", right=True)]
    rows = [_row(each, names) for each in learned]
    for said, scores in _others(learned).items():
        rows.append([said, "", "", "", *(_score(scores.get(name)) for name in names), ""])
    return table_of(columns, rows)


def _row(each: Learned, names: Sequence[str]) -> list[object]:
    spent = NOTHING if each.seconds is None else duration(each.seconds)
    scores = (_score(each.scores.get(name)) for name in names)
    return [code(each.implementation), each.seed, len(each.curve), f"{each.curve[-1]:.3g}", *scores, spent]


def _others(learned: Sequence[Learned]) -> dict[str, Mapping[str, float]]:
    """Scores that stand beside, by whose they are. A simpler method's score stands in the first column."""
    found: dict[str, Mapping[str, float]] = {}
    if printed := next((each.printed for each in learned if each.printed), None):
        found["the documents print"] = printed
    first = next(iter(learned[0].scores), "")
    methods: dict[str, list[float]] = defaultdict(list)
    for each in learned:
        for method, score in each.beside.items():
            methods[method].append(score)
    return found | {method: {first: fmean(scores)} for method, scores in methods.items()}


def _score(value: float | None) -> Cell:
    return number(value, NOTHING if value is None else f"{value:.3f}")


def _without(learned: Sequence[Learned]) -> Iterator[Block]:
    for each in {each.implementation: each for each in learned if each.without}.values():
        yield note(code(each.implementation), f" lacks {', '.join(each.without)}, so the task was learned without.")


def _configs(learned: Sequence[Learned]) -> Block:
    """Each config once."""
    said = dict.fromkeys(
        ", ".join(f"{name} {value}" for name, value in each.config.items() if value not in ("", None))
        for each in learned
    )
    return note("Config: ", "; or ".join(said), longest=LONGEST_FACT)


def _numbers(recorded: Recorded) -> Table:
    """A row for each score, for programs."""
    heads = ("run", "commit", "task", "implementation", "seed", "epochs", "loss", "score", "value", "printed")
    rows = [
        (identity, recorded.runs[identity].commit, each.task, each.implementation, each.seed, len(each.curve),
         each.curve[-1], name, value, each.printed.get(name))
        for identity, each in recorded.trained
        for name, value in {**each.scores, **each.beside}.items()
    ]  # fmt: skip
    return table_of([Column(key=head) for head in heads], rows)
