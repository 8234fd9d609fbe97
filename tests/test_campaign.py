"""A campaign: what a run notes for reports, which need no torch."""

from types import SimpleNamespace

from suite import campaign
from suite.contracts import contract


def test_a_run_notes_workloads_of_one_name_for_each_contract():
    benchmarks = [
        SimpleNamespace(contract=contract(name), implementations=()) for name in ("attention", "vision_transformer")
    ]

    noted = campaign.benchmark_facts(benchmarks).workloads

    assert list(noted) == ["attention", "vision_transformer"]
    assert "length 197" in noted["attention"]["vit/b16"].shape
    assert "12 blocks" in noted["vision_transformer"]["vit/b16"].shape
