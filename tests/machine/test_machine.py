"""The name and the facts of a machine, also where some are absent."""

import getpass
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from processes import committed, git

from attnsuite import machine
from attnsuite.machine import nvml
from attnsuite.model import Machine


def test_here_describes_this_machine():
    found = machine.here()

    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", found.name)
    assert 1 <= found.cores <= found.threads
    assert found.memory_bytes > 2**28
    assert found.processor
    assert found.system
    assert machine.here() == found  # or no run would ever be resumed


def test_name_holds_no_host_and_no_user(monkeypatch):
    monkeypatch.setattr(machine.system, "processor", lambda: "AMD EPYC")

    name = machine.here().name

    assert name.startswith("amd-epyc-")
    assert not {socket.gethostname(), getpass.getuser()} & set(name.split("-"))


@pytest.mark.parametrize(
    ("processor", "cores", "accelerators", "name"),
    [
        ("AMD EPYC", 2, (), "amd-epyc-2-cores"),
        ("AMD EPYC 7763 64-Core Processor", 1, (), "amd-epyc-7763-1-core"),
        ("Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", 4, (), "intel-xeon-platinum-8370c-4-cores"),
        ("Apple M2", 8, (), "apple-m2-8-cores"),
        ("AMD EPYC", 16, ("NVIDIA H200",), "amd-epyc-16-cores-nvidia-h200"),
        ("AMD EPYC", 96, ("NVIDIA H100",) * 8, "amd-epyc-96-cores-8-nvidia-h100"),
        ("../../etc", 1, (), "etc-1-core"),
        ("Intel(R) Xeon(R) Processor, family 6, model 207", 2, (), "intel-xeon-family-6-model-207-2-cores"),
        ("Intel(R) Xeon(R) Processor @ 2.80GHz, family 6, model 106", 2, (), "intel-xeon-family-6-model-106-2-cores"),
    ],
)
def test_name_is_a_readable_folder(processor, cores, accelerators, name):
    assert machine._name(processor, cores, accelerators) == name


@pytest.mark.parametrize(
    ("named", "processor"),
    [
        ("Intel(R) Xeon(R) Processor", "Intel(R) Xeon(R) Processor, family 6, model 207"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel(R) Xeon(R) CPU @ 2.20GHz, family 6, model 207"),
        ("AMD  EPYC 7B12", "AMD EPYC 7B12"),
    ],
)
def test_a_name_that_fits_several_processors_is_told_apart_by_family_and_model(tmp_path, named, processor):
    core = f"vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: {named}\nstepping\t: 2\n\n"
    (tmp_path / "cpuinfo").write_text(2 * core)

    assert machine.system.processor(tmp_path / "cpuinfo") == processor


def cache(folder, index, **says):
    (folder / index).mkdir()
    for name, text in says.items():
        (folder / index / name).write_text(f"{text}\n")


def test_caches_are_in_bytes_by_level_and_kind(tmp_path):
    cache(tmp_path, "index0", level=1, type="Data", size="48K")
    cache(tmp_path, "index1", level=1, type="Instruction", size="64K")
    cache(tmp_path, "index2", level=2, type="Unified", size="2048K")
    cache(tmp_path, "index3", level=3, type="Unified", size="36M")

    found = machine.system.caches(tmp_path)

    assert found == {"L1d": 48 * 2**10, "L1i": 2**16, "L2": 2**21, "L3": 36 * 2**20}


def test_a_cache_that_does_not_tell_is_left_out(tmp_path):
    cache(tmp_path, "index0", level=1, type="Data")
    cache(tmp_path, "index1", level=1, type="Trace", size="12K")
    cache(tmp_path, "index2", level=2, type="Unified", size="")
    cache(tmp_path, "index3", level=3, type="Unified", size="480K")

    assert machine.system.caches(tmp_path) == {"L3": 480 * 2**10}
    assert machine.system.caches(tmp_path / "nowhere") == {}


def test_a_machine_comes_back_from_its_row_as_it_was(monkeypatch):
    monkeypatch.setattr(machine.system, "caches", lambda: {"L1d": 49152, "L2": 2097152})
    monkeypatch.setattr(machine.nvml, "devices", lambda: ("NVIDIA H200",))
    monkeypatch.setattr(machine.nvml, "facts", lambda: {"driver": "570.86.15", "memory_bytes": [150754820096]})
    here = machine.here()

    assert msgspec.json.decode(msgspec.json.encode(here), type=Machine) == here
    assert here.caches == {"L1d": 49152, "L2": 2097152}
    assert here.accelerator_facts == {"driver": "570.86.15", "memory_bytes": [150754820096]}


def test_versions_leave_out_what_is_absent_and_import_nothing():
    program = "import sys; from attnsuite.machine import versions; print(versions()); assert 'numpy' not in sys.modules"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert "'python': '3" in printed
    assert "flash-attn" not in printed


def test_commit_is_empty_without_git(tmp_path, monkeypatch):
    assert machine.commit(tmp_path) == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.commit(Path(__file__).parent) == ""


def test_commit_is_dirty_when_anything_but_results_differs(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)

    git(tmp_path, "init")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "code.py").write_text("pass\n")
    assert machine.commit(tmp_path) == ""  # no commit yet
    committed(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "README.md").write_text("new\n")

    clean = machine.commit(tmp_path / "inner")
    (tmp_path / "inner" / "new.py").write_text("pass\n")
    dirty = machine.commit(tmp_path / "inner")

    assert re.fullmatch("[0-9a-f]{12}", clean)
    assert dirty == f"{clean}-dirty"


def test_new_run_is_of_this_machine_and_unfinished():
    run = machine.new_run({"attention/loops": "1a"}, "suite-hash", request="check")

    assert (run.machine, run.sources, run.suite, run.request) == (
        machine.here(),
        {"attention/loops": "1a"},
        "suite-hash",
        "check",
    )
    assert not run.finished
    assert run.id.isalnum()


# GPUs without pynvml

NAME = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Puts a program in nvidia-smi's place, which prints these lines and ends with a status."""

    def put(lines, status=0):
        file = tmp_path / "nvidia-smi"
        file.write_text(f"#!{sys.executable}\nprint({lines!r})\nraise SystemExit({status})\n")
        file.chmod(0o755)
        monkeypatch.setattr(nvml, "TOOL", (str(file), "--query-gpu=name", "--format=csv,noheader"))
        monkeypatch.setitem(sys.modules, "pynvml", None)

    return put


def test_the_driver_s_tool_names_the_devices_where_pynvml_is_absent(tool):
    tool(f"{NAME}\n{NAME}\n")

    assert nvml.devices() == (NAME, NAME)
    assert machine.here().name.endswith("-2-nvidia-h100-80gb-hbm3")


def test_a_tool_that_fails_names_nothing(tool):
    tool("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", status=9)

    assert nvml.devices() == ()
