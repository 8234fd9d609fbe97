"""docs/site/fields.md lists every field of every file of a run, each with its meaning."""

import runpy
from pathlib import Path

from msgspec import structs

HOME = Path(__file__).parents[2]
FIELDS = runpy.run_path(str(HOME / "scripts" / "fields.py"))


def test_the_page_has_the_tables_of_the_structs():
    expected = f"{FIELDS['TEXT']}\n{FIELDS['tables']()}\n"

    assert (HOME / "docs" / "site" / "fields.md").read_text("utf-8") == expected, "run `python scripts/fields.py`"


def test_every_field_has_a_meaning():
    fields = [
        (kind, field.name) for kinds in FIELDS["FILES"].values() for kind in kinds for field in structs.fields(kind)
    ]

    assert [(kind.__name__, name) for kind, name in fields if not FIELDS["meaning"](kind, name)] == []
