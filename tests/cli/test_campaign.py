"""A campaign: what a run notes for reports, which need no torch."""

from attnsuite.benchmark import Benchmark, Request
from attnsuite.cli import campaign
from attnsuite.contracts import contract


def test_a_run_notes_workloads_of_one_name_for_each_contract():
    request = Request(("vit",), shapes=("l=8",))
    other = Request(("vit",), baseline="x")
    benchmarks = [Benchmark(contract("attention"), (), request), Benchmark(contract("vision_transformer"), (), other)]

    facts = campaign.benchmark_facts(benchmarks)
    noted = facts.workloads

    assert list(noted) == ["attention", "vision_transformer"]
    assert "length 197" in noted["attention"]["vit/b16"].shape
    assert "12 blocks" in noted["vision_transformer"]["vit/b16"].shape
    assert "length 8" in noted["attention"]["shape/l=8,e=64"].shape, "what a user types is noted, too"
    assert facts.baselines == {"vision_transformer": "x"}
