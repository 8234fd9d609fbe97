"""A machine has the names of its GPUs also where pynvml is not installed."""

import os
import sys

import pytest

from attnsuite import machine
from attnsuite.machine import nvidia, unaided

NAME = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Puts a program in nvidia-smi's place, which says these lines and ends with a status."""

    def put(said, status=0):
        file = tmp_path / "nvidia-smi"
        file.write_text(f"#!{sys.executable}\nprint({said!r})\nraise SystemExit({status})\n")
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(unaided, "TOOL", ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"))
        monkeypatch.setitem(sys.modules, "pynvml", None)

    return put


def test_the_driver_s_tool_names_the_devices_where_pynvml_is_absent(tool):
    tool(f"{NAME}\n{NAME}\n")

    assert nvidia.devices() == (NAME, NAME)
    assert machine.here().name.endswith("-2-nvidia-h100-80gb-hbm3"), "and so does the folder of its results"


def test_pytorch_names_them_where_there_is_no_tool_either(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text(
        f"class cuda:\n    device_count = lambda: 1\n    get_device_name = lambda index: {NAME!r}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvidia.devices() == (), "without a driver nobody is asked"

    unaided.names.cache_clear()
    monkeypatch.setattr(unaided, "DEVICES", (tmp_path,))

    assert nvidia.devices() == (NAME,)


def test_a_tool_that_fails_names_nothing(tool):
    tool("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", status=9)

    assert nvidia.devices() == ()
