"""The tasks: a module each, found by being here. A module's `TASKS` are its tasks."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from attnsuite.documents.learning.task import Task
from attnsuite.model import UsageError


def tasks() -> dict[str, Task]:
    """All tasks by name, in the order of their modules."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    return {task.name: task for module in modules for task in getattr(module, "TASKS", ())}


def of_table(name: str) -> list[Task]:
    """The task of this name; where others stand in its table, or only a table has the name, all of that table.

    Raises UsageError for a name that neither has.
    """
    return [each for each in tasks().values() if each.stands_in == name] or [task(name)]


def task(name: str) -> Task:
    """The task of this name. Raises UsageError for a name that no task has."""
    there = tasks()
    if name not in there:
        raise UsageError(f"unknown task {name!r:.80}; there are: {', '.join(there)}")
    return there[name]
