"""`scripts/gpu.sh`, rehearsed on the CPU: parts that fail, a run that its time ends, and the archive of both."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import attnsuite
from attnsuite.benchmark import request
from attnsuite.benchmark.request import Request
from attnsuite.contracts import contract

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_archive_has_the_rows_of_a_run_that_its_time_ended(tmp_path: Path) -> None:
    """A kernel that needs a GPU fails, the run is interrupted; the archive has all rows until then, and pages."""
    settings = {"DEVICE": "cpu", "TARGETS": "attention/*", "EXCEPT": "attention/flex", "SECONDS_IN_ALL": "75"}
    environment = {**os.environ, **settings, "PYTHON": sys.executable}
    command = ["bash", str(ROOT / "scripts" / "gpu.sh"), str(tmp_path / "archive.tar.gz")]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 1, process.stdout
    with tarfile.open(tmp_path / "archive.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    log = (tmp_path / "log.txt").read_text()
    assert "attention/triton_fused supports none of the tests\n== status 1" in log  # and the next part ran
    assert "interrupted: results stored" in log
    assert log.rstrip().endswith("== status 0")  # the pages
    rows = attnsuite.load_results(tmp_path / "results")
    assert "attention/triton_fused" in set(rows.implementation)
    assert (rows.status == "passed").any()
    assert (tmp_path / "results" / "report.html").exists()


def test_the_profile_has_the_tables_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "check_device", lambda device: None)

    def rows_of(name: str) -> set[tuple[str, str, str]]:
        tables = Request(profile="gpu", device="cuda").tables(contract(name))
        return {(table.workload.name, table.dtype, table.direction) for table in tables}

    rows = rows_of("attention")
    for length in ("512", "1k", "2k", "4k", "8k", "16k"):
        for name in (f"flash/{length}-e{width}{causal}" for width in (64, 128) for causal in ("", "-causal")):
            assert (name, "bfloat16", "forward") in rows
        assert (f"flash/{length}-e128-causal", "bfloat16", "forward_backward") in rows
    others = ("float32/2k", "float32"), ("float32/8k", "float32"), ("decode/8k", "bfloat16"), ("decode/64k", "bfloat16")
    assert {(*other, "forward") for other in (*others, ("vit/b16", "bfloat16"))} <= rows
    packed = {(f"packed/{name}", "bfloat16", "forward") for name in ("8k", "8k-equal", "64k", "decode")}
    assert rows_of("varlen_attention") == packed
    decoding = {(name, "bfloat16", "forward") for name in ("paged/8k", "paged/64k", "dense/4k-b64", "paged/16k-b64")}
    assert rows_of("kv_cache_attention") == decoding
