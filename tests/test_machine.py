"""What a machine is called, and what is said of it where things are absent."""

import getpass
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from suite import machine


class NVMLError(Exception):
    pass


def nvml(*names, starts=True):
    def start():
        if not starts:
            raise NVMLError

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(names),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda index: names[index],
    )


def test_here_describes_this_machine():
    found = machine.here()

    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", found.name)
    assert 1 <= found.cores <= found.threads
    assert found.memory_bytes > 2**28
    assert found.processor
    assert found.system


def test_name_holds_no_host_and_no_user(monkeypatch):
    monkeypatch.setattr(machine, "_processor", lambda: "AMD EPYC")

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
    ],
)
def test_name_is_a_readable_folder(processor, cores, accelerators, name):
    assert machine._name(processor, cores, accelerators) == name


def test_without_nvml_there_is_no_accelerator(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert machine.here().accelerators == ()


def test_without_a_driver_there_is_no_accelerator(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml("NVIDIA H200", starts=False))

    assert machine.here().accelerators == ()


def test_nvml_names_the_accelerators_whether_bytes_or_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml("NVIDIA H200", b"NVIDIA L4"))

    assert machine.here().accelerators == ("NVIDIA H200", "NVIDIA L4")


def test_versions_leave_out_what_is_absent_and_import_nothing():
    program = "import sys; from suite.machine import versions; print(versions()); assert 'numpy' not in sys.modules"
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

    def git(*arguments):
        subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            check=True,
            capture_output=True,
        )

    git("init")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "code.py").write_text("pass\n")
    assert machine.commit(tmp_path) == ""  # no commit yet
    git("add", ".")
    git("commit", "-m", "first")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "README.md").write_text("new\n")

    clean = machine.commit(tmp_path / "inner")
    (tmp_path / "inner" / "new.py").write_text("pass\n")
    dirty = machine.commit(tmp_path / "inner")

    assert re.fullmatch("[0-9a-f]{12}", clean)
    assert dirty == f"{clean}-dirty"


def test_new_run_is_of_this_machine_and_unfinished():
    run = machine.new_run({"attention/loops": "1a"}, "suite-hash", asked="check")

    assert (run.machine, run.sources, run.suite, run.asked) == (
        machine.here(),
        {"attention/loops": "1a"},
        "suite-hash",
        "check",
    )
    assert not run.finished
    assert run.id.isalnum()
