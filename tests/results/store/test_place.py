"""Two machines of one name that differ do not share a folder unnoticed, and each finds its own again."""

import pytest
from msgspec.structs import replace
from stored import MACHINE, RUN, folder, outcome, read, record

from attnsuite.model import Machine
from attnsuite.results.store import Results

PLAIN = replace(MACHINE, caches={"L1d": 48 * 2**10, "L2": 2**21, "L3": 300 * 2**20}, memory_bytes=25_276_063_744)
L3 = replace(PLAIN, caches={**PLAIN.caches, "L3": 260 * 2**20})


def run_on(results, machine, **changes):
    """A run on a machine: the name of its folder, and what was said."""
    writer = record(results, replace(RUN, machine=machine, **changes), outcome("a"))
    assert writer.run.machine.name == writer.folder.name
    return writer.folder.name, writer.notes


@pytest.mark.parametrize(
    ("change", "name", "says"),
    [
        ({"caches": L3.caches}, "l3-260-mib", "L3 300 MiB, not 260 MiB"),
        ({"memory_bytes": 2**34}, "16-gib-of-memory", "23.5 GiB of memory, not 16 GiB"),
        ({"threads": 4}, "4-threads", "2 threads, not 4"),
        ({"cores": 1}, "1-cores", "2 cores, not 1"),
        ({"processor": "AMD EPYC @ 2.8GHz"}, "amd-epyc-2.8ghz", "AMD EPYC, not AMD EPYC @ 2.8GHz"),
        ({"accelerators": ()}, "no-accelerator", "NVIDIA H200, not none"),
    ],
)
def test_another_machine_of_the_same_name_gets_a_folder_that_says_how_it_differs(tmp_path, change, name, says):
    run_on(tmp_path, PLAIN)

    place, notes = run_on(tmp_path, replace(PLAIN, **change))

    assert place == f"amd-epyc-2-cores-{name}"
    assert notes == (
        f"{folder(tmp_path)} is of a machine with {says}: results of this machine are in {tmp_path / place}",
    )
    assert run_on(tmp_path, replace(PLAIN, **change)) == (place, notes), "it finds its own again, and says so"
    assert run_on(tmp_path, PLAIN) == ("amd-epyc-2-cores", ())


@pytest.mark.parametrize(
    "change",
    [
        {"memory_bytes": PLAIN.memory_bytes - 200 * 2**20},
        {"system": "Linux 7.0 x86_64, Debian 13"},
        {"caches": {}},
        {"caches": {"L2": 2**21}},
        {"accelerator_facts": {"driver": "999"}},
    ],
)
def test_a_reboot_a_new_kernel_or_what_the_system_does_not_tell_is_the_same_machine(tmp_path, change):
    run_on(tmp_path, PLAIN)

    assert run_on(tmp_path, replace(PLAIN, **change)) == ("amd-epyc-2-cores", ())


def test_a_folder_that_did_not_know_is_that_of_the_first_who_does(tmp_path):
    run_on(tmp_path, replace(PLAIN, caches={}))
    run_on(tmp_path, PLAIN, suite="suite-2")

    assert run_on(tmp_path, L3)[0] == "amd-epyc-2-cores-l3-260-mib"


def test_three_machines_of_one_name_have_three_folders(tmp_path):
    third = replace(PLAIN, caches={**PLAIN.caches, "L3": 480 * 2**20})
    for _ in range(2):
        names = [run_on(tmp_path, each)[0] for each in (PLAIN, L3, third)]
        assert names == ["amd-epyc-2-cores", "amd-epyc-2-cores-l3-260-mib", "amd-epyc-2-cores-l3-480-mib"]
    assert Results(tmp_path).machines() == names


def test_a_run_that_knew_less_hides_no_other_machine(tmp_path):
    record(tmp_path, replace(RUN, machine=PLAIN), outcome("b"))
    run_on(tmp_path, replace(PLAIN, caches={}), suite="suite-2")

    assert run_on(tmp_path, L3)[0] == "amd-epyc-2-cores-l3-260-mib"


def test_two_that_differ_from_the_first_alike_but_from_each_other_too_have_a_folder_each(tmp_path):
    run_on(tmp_path, replace(PLAIN, caches={"L3": 300 * 2**20}))
    run_on(tmp_path, L3)
    fourth = replace(L3, caches={**L3.caches, "L2": 2**20})

    assert run_on(tmp_path, fourth)[0] == "amd-epyc-2-cores-l3-260-mib-l2-1-mib"
    assert run_on(tmp_path, fourth)[0] == "amd-epyc-2-cores-l3-260-mib-l2-1-mib"
    assert run_on(tmp_path, L3)[0] == "amd-epyc-2-cores-l3-260-mib"


def test_a_machine_keeps_its_folder_when_the_one_of_the_plain_name_is_gone(tmp_path):
    run_on(tmp_path, PLAIN)
    run_on(tmp_path, L3)
    for file in folder(tmp_path).iterdir():
        file.unlink()
    folder(tmp_path).rmdir()

    assert run_on(tmp_path, L3)[0] == "amd-epyc-2-cores-l3-260-mib"


def test_a_machine_whose_name_begins_like_another_s_is_another(tmp_path):
    longer = Machine("amd-epyc-2-cores-nvidia-h200", "AMD EPYC", 2, 2, PLAIN.memory_bytes, "Linux", ("NVIDIA H200",))
    run_on(tmp_path, longer)

    assert run_on(tmp_path, replace(PLAIN, accelerators=())) == ("amd-epyc-2-cores", ())


def test_what_is_said_of_machines_that_were_not_finished_counts_too(tmp_path):
    record(tmp_path, replace(RUN, machine=PLAIN), outcome("a"), finish=False)

    assert run_on(tmp_path, L3)[0] == "amd-epyc-2-cores-l3-260-mib"
    assert read(tmp_path).rows == (("r1", outcome("a")),)


def test_who_does_not_write_learns_the_folder_too(tmp_path):
    run_on(tmp_path, PLAIN)

    assert Results(tmp_path).of(L3).name == "amd-epyc-2-cores-l3-260-mib"
    assert Results(tmp_path).of(PLAIN) == PLAIN
