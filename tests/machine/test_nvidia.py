"""What is said of NVIDIA devices: here, where they are absent, and at the seam, with an H200's answers."""

import ctypes
import json
import subprocess
import sys
import threading
from itertools import count
from types import SimpleNamespace

import pytest

from suite.machine import nvidia, nvml, telemetry

FIRST, SECOND = "GPU-4d0a9b1e-52c7-8f3b-9a61-0c5f2e7d8b34", "GPU-4d77aa01-0e9c-1b2d-3c4e-5f6071829304"
INSTANCE = "MIG-7f1c6f0a-7c3e-5d55-8a52-3f0f6f1f2a10"
FIELDS = ("sm_clock", "memory_clock", "temperature", "power", "used_memory", "throttle", "joules")
NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND, LOST = 3, 6, 13, 15
SAYS = {
    NOT_SUPPORTED: "Not Supported",
    NOT_FOUND: "Not Found",
    FUNCTION_NOT_FOUND: "Function Not Found",
    LOST: "GPU is lost",
}


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(SAYS.get(value, f"NVML Error with code {value}"))
        self.value = value


class Library:
    """pynvml as it answers on a machine with H200s; `fails` maps a function's name to the error that it raises."""

    NVMLError = NVMLError

    def __init__(self, uuids=(FIRST,), names=None, **fails):
        self.uuids, self.names = uuids, names or ["NVIDIA H200"] * len(uuids)
        self.fails = fails
        self.energy = iter([81_234_567_890, 81_235_267_890, 81_235_267_891])  # mJ: 700 J from begin to end
        self.open = 0
        self.asked = []
        self.lost = False

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if not name.startswith("nvml"):
            return found

        def answer(*arguments):
            self.asked.append((name, *arguments))
            error = LOST if self.lost and arguments else self.fails.get(name)
            if error is not None:
                raise NVMLError(error) if isinstance(error, int) else error
            return found(*arguments)

        return answer

    def nvmlInit(self):
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):
        return b"570.86.15"

    def nvmlSystemGetCudaDriverVersion(self):
        return 12080

    def nvmlDeviceGetCount(self):
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.uuids[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != INSTANCE:
            raise NVMLError(NOT_FOUND)
        return uuid

    def nvmlDeviceGetUUID(self, handle):
        return handle.encode()

    def nvmlDeviceGetName(self, handle):
        return self.names[self.uuids.index(handle)]

    def nvmlDeviceGetMigMode(self, handle):
        return [0, 0]

    def nvmlDeviceGetClockInfo(self, handle, domain):
        return {1: 1980, 2: 3201}[domain]

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return {0: 41}[sensor]

    def nvmlDeviceGetPowerUsage(self, handle):
        return 301_250

    def nvmlDeviceGetFieldValues(self, handle, fields):
        assert fields == [186]
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=698_412))]

    def nvmlDeviceGetPowerManagementLimit(self, handle):
        return 700_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        return next(self.energy)

    def nvmlDeviceGetMemoryInfo(self, handle):
        used = 19_327_352_832 if handle == INSTANCE else 2_147_483_648
        return SimpleNamespace(total=150_754_820_096, used=used)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return 0x4


@pytest.fixture(autouse=True)
def _no_choice_of_devices(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


@pytest.fixture
def install(monkeypatch):
    """Puts a library in pynvml's place, and a clock that goes a second from look to look in the meter's."""

    def put(library):
        monkeypatch.setitem(sys.modules, "pynvml", library)
        ticks = count(100.0)
        monkeypatch.setattr(nvidia, "perf_counter", lambda: next(ticks))
        monkeypatch.setattr(nvidia, "INTERVAL", 0.001)
        return library

    return put


def measured(device="cuda:0"):
    with nvidia.meter(device) as meter:
        pass
    assert json.loads(json.dumps(meter.telemetry)) == meter.telemetry
    return meter.telemetry


def all_absent(found, reason):
    return [(found[name], found[f"{name}_absent"]) for name in FIELDS] == [(None, reason)] * len(FIELDS)


# Absent


def test_without_the_library_there_is_no_device_and_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)

    found = measured()

    assert nvidia.devices() == ()
    assert nvidia.facts() == {}
    assert nvidia.used_memory("cuda:0") is None
    assert found["power_absent"].startswith("no NVML: ")
    assert "pynvml" in found["power_absent"]
    assert all_absent(found, found["power_absent"])


def test_without_a_driver_there_is_no_device_and_a_reason(install):
    library = install(Library(nvmlInit=NVMLError(12)))

    assert nvidia.devices() == ()
    assert nvidia.facts() == {}
    assert nvidia.used_memory("cuda:0") is None
    assert all_absent(measured(), "no NVML: NVML Error with code 12")
    assert library.open == 0


def test_the_installed_library_says_what_this_machine_has():
    """For real: without a driver there is a reason, with one each field has a value or a reason."""
    pynvml = pytest.importorskip("pynvml")
    reason = ""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        reason = f"no NVML: {error}"

    found = measured()

    if reason:
        assert (nvidia.devices(), nvidia.facts(), nvidia.used_memory("cuda:0")) == ((), {}, None)
        assert all_absent(found, reason)
    else:
        assert len(nvidia.devices()) == pynvml.nvmlDeviceGetCount()
        assert all((found[name] is None) == (f"{name}_absent" in found) for name in FIELDS)


@pytest.mark.parametrize("device", ["cpu", "mps", "xpu:0"])
def test_another_device_has_no_telemetry_and_no_thread(device, install):
    library = install(Library())
    threads = threading.active_count()

    with nvidia.meter(device) as meter:
        assert threading.active_count() == threads

    assert all_absent(meter.telemetry, f"{device} has no NVML device")
    assert meter.telemetry["samples"] == 0
    assert nvidia.used_memory(device) is None
    assert library.asked == []


def test_nothing_here_imports_torch_or_the_library():
    program = "import sys; import suite.machine.nvidia; assert not {'torch', 'pynvml', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


# Devices and facts


def test_names_are_text_whether_bytes_or_text(install):
    install(Library((FIRST, SECOND), ["NVIDIA H200", b"NVIDIA L4"]))

    assert nvidia.devices() == ("NVIDIA H200", "NVIDIA L4")


def test_a_device_that_does_not_answer_is_named_so(install):
    install(Library(nvmlDeviceGetName=LOST))
    assert nvidia.devices() == ("NVIDIA device that does not answer",)

    library = install(Library(nvmlDeviceGetCount=LOST))
    assert nvidia.devices() == ("NVIDIA device that does not answer",)
    assert library.open == 0


def test_a_device_that_is_lost_leaves_the_others_their_names(install):
    def name(handle):
        if handle == FIRST:
            raise NVMLError(LOST)
        return "NVIDIA L4"

    install(Library((FIRST, SECOND))).nvmlDeviceGetName = name

    assert nvidia.devices() == ("NVIDIA device that does not answer", "NVIDIA L4")


def test_facts_are_the_drivers_and_each_devices(install):
    library = install(Library((FIRST, SECOND)))

    assert nvidia.facts() == {
        "driver": "570.86.15",
        "cuda": "12.8",
        "memory_bytes": [150754820096, 150754820096],
        "power_limit": [700.0, 700.0],
    }
    assert library.open == 0


def test_a_fact_that_is_not_told_has_its_reason(install):
    install(Library(nvmlDeviceGetPowerManagementLimit=NOT_SUPPORTED))

    found = nvidia.facts()

    assert found["power_limit"] is None
    assert found["power_limit_absent"] == "NVML: Not Supported"
    assert found["driver"] == "570.86.15"


def test_a_driver_without_devices_has_no_facts(install):
    install(Library(()))

    assert nvidia.devices() == ()
    assert nvidia.facts() == {}


def test_used_memory_is_of_the_device_that_was_named(install):
    library = install(Library())

    assert nvidia.used_memory(FIRST) == 2147483648
    assert nvidia.used_memory(INSTANCE) == 19327352832
    assert nvidia.used_memory(SECOND) is None
    assert library.open == 0


# The meter


def test_a_window_tells_everything_in_its_unit(install):
    library = install(Library())

    found = measured()

    assert {name: found[name] for name in FIELDS} == {
        "sm_clock": {"median": 1980, "low": 1980, "high": 1980},
        "memory_clock": {"median": 3201, "low": 3201, "high": 3201},
        "temperature": {"median": 41, "low": 41, "high": 41},
        "power": {"median": 698.412, "low": 698.412, "high": 698.412},
        "used_memory": {"median": 2147483648, "low": 2147483648, "high": 2147483648},
        "throttle": ["sw_power_cap"],
        "joules": 700.0,
    }
    assert (found["power_from"], found["joules_from"]) == ("instant", "counter")
    assert found["samples"] >= 1
    assert found["seconds"] > 0
    assert not [name for name in found if name.endswith("_absent")]
    assert library.open == 0


def test_start_and_stop_do_what_the_context_does(install):
    install(Library())
    meter = nvidia.meter("cuda:0")

    assert all_absent(meter.stop(), "nothing was measured")
    assert meter.start() is meter
    first = meter.stop()

    assert first["samples"] >= 1
    assert meter.stop() is meter.telemetry is first
    with pytest.raises(RuntimeError, match="started before"):
        meter.start()


def test_a_body_that_raises_ends_the_window(install):
    library = install(Library())
    meter = nvidia.meter("cuda:0")

    with pytest.raises(ZeroDivisionError), meter:
        1 / 0  # noqa: B018  # raises

    assert meter.telemetry["samples"] >= 1
    assert library.open == 0
    assert "NVML cuda:0" not in [thread.name for thread in threading.enumerate()]


def test_a_system_that_starts_no_thread_is_the_reason(install, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    library = install(Library())
    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert all_absent(measured(), "NVML: can't start new thread")
    assert library.open == 0


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetTemperature", "temperature"),
        ("nvmlDeviceGetMemoryInfo", "used_memory"),
        ("nvmlDeviceGetCurrentClocksEventReasons", "throttle"),
    ],
)
def test_a_field_that_is_not_supported_leaves_the_others(function, field, install):
    install(Library(**{function: NOT_SUPPORTED}))

    found = measured()

    assert (found[field], found[f"{field}_absent"]) == (None, "NVML: Not Supported")
    assert [name for name in FIELDS if found[name] is None] == [field]


def test_a_field_that_is_not_supported_is_asked_once(install):
    library = install(Library(nvmlDeviceGetTemperature=NOT_SUPPORTED))

    with nvidia.meter("cuda:0"):
        while library.asked.count(("nvmlDeviceGetMemoryInfo", FIRST)) < 3:
            threading.Event().wait(0.001)

    assert library.asked.count(("nvmlDeviceGetTemperature", FIRST, 0)) == 1


def test_momentary_power_gives_way_to_what_older_drivers_tell(install):
    for error in (NOT_SUPPORTED, AttributeError("module 'pynvml' has no attribute 'nvmlDeviceGetFieldValues'")):
        install(Library(nvmlDeviceGetFieldValues=error))
        found = measured()
        assert (found["power"]["median"], found["power_from"]) == (301.25, "usage")


def test_a_field_value_that_carries_an_error_is_no_power(install):
    library = install(Library())
    library.nvmlDeviceGetFieldValues = lambda handle, fields: [
        SimpleNamespace(nvmlReturn=NOT_SUPPORTED, value=SimpleNamespace(uiVal=0))
    ]

    assert measured()["power_from"] == "usage"


def test_no_power_at_all_has_its_reason(install):
    install(Library(nvmlDeviceGetFieldValues=NOT_SUPPORTED, nvmlDeviceGetPowerUsage=NOT_SUPPORTED))

    found = measured()

    assert (found["power"], found["power_absent"]) == (None, "NVML: Not Supported")
    assert "power_from" not in found
    assert found["joules"] == 700.0


@pytest.mark.parametrize(
    "missing", [FUNCTION_NOT_FOUND, AttributeError("module 'pynvml' has no such attribute")], ids=["driver", "pynvml"]
)
def test_functions_that_were_renamed_are_asked_by_either_name(missing, install):
    library = install(Library(nvmlDeviceGetTemperature=missing, nvmlDeviceGetCurrentClocksEventReasons=missing))
    library.nvmlDeviceGetTemperatureV = lambda handle, sensor: 42
    library.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x20

    found = measured()

    assert found["temperature"]["median"] == 42
    assert found["throttle"] == ["sw_thermal_slowdown"]


def test_a_device_that_is_lost_in_between_ends_the_sampling_and_is_the_reason(install):
    library = install(Library())
    meter = nvidia.meter("cuda:0").start()
    while ("nvmlDeviceGetCurrentClocksEventReasons", FIRST) not in library.asked:
        threading.Event().wait(0.001)

    library.lost = True
    meter._thread.join(60)

    assert not meter._thread.is_alive()
    assert all_absent(meter.stop(), "NVML: GPU is lost")
    assert meter.telemetry["samples"] >= 1
    assert library.open == 0


def test_a_device_that_was_lost_before_is_the_reason(install):
    library = install(Library())
    library.lost = True

    with nvidia.meter("cuda:0") as meter:
        pass

    assert all_absent(meter.telemetry, "NVML: GPU is lost")
    assert library.open == 0


def test_errors_that_are_not_the_librarys_are_reasons_too(install):
    install(Library(nvmlDeviceGetTemperature=OSError("the bus is gone"), nvmlDeviceGetMemoryInfo=ValueError()))

    found = measured()

    assert found["temperature_absent"] == "NVML: the bus is gone"
    assert found["used_memory_absent"] == "NVML: ValueError"


def test_a_question_that_is_never_answered_is_given_up(install, monkeypatch):
    monkeypatch.setattr(nvidia, "LONGEST_ANSWER", 0.01)
    library, answered = install(Library()), threading.Event()
    library.nvmlDeviceGetTemperature = lambda handle, sensor: answered.wait(60)
    meter = nvidia.meter("cuda:0").start()

    found = meter.stop()
    answered.set()
    meter._thread.join(60)

    assert all_absent(found, "NVML has not answered for 0.01 s")
    assert library.open == 1  # the thread was inside


def test_an_instance_has_its_own_memory_and_no_power(install):
    install(Library())

    found = measured(INSTANCE)

    assert found["used_memory"]["median"] == 19327352832
    assert found["power_absent"] == found["joules_absent"] == "a MIG instance has no power meter of its own"


def test_a_divided_card_is_not_taken_for_its_instance(install):
    library = install(Library())
    library.nvmlDeviceGetMigMode = lambda handle: [1, 1]

    assert f"{FIRST} is divided by MIG" in measured("cuda:0")["power_absent"]
    assert nvidia.used_memory("cuda:0") is None
    assert nvidia.used_memory(INSTANCE) == 19327352832


def test_a_card_that_has_no_instances_is_whole(install):
    install(Library(nvmlDeviceGetMigMode=NOT_SUPPORTED))

    assert measured()["joules"] == 700.0


def test_numbers_are_those_of_the_library():
    pynvml = pytest.importorskip("pynvml")

    ours = (nvml._SM, nvml._MEMORY, nvml._DIE, nvml._INSTANT_POWER, nvml._FUNCTION_NOT_FOUND)
    theirs = "CLOCK_SM", "CLOCK_MEM", "TEMPERATURE_GPU", "FI_DEV_POWER_INSTANT", "ERROR_FUNCTION_NOT_FOUND"
    assert ours == tuple(getattr(pynvml, f"NVML_{name}") for name in theirs)
    for bit, word in telemetry.REASONS.items():
        name = f"nvmlClocksThrottleReason{word.title().replace('_', '')}"
        assert getattr(pynvml, name, bit if bit > 0x100 else None) == bit  # the later ones are new in 13
    assert isinstance(pynvml.c_nvmlFieldValue_t().value.uiVal, int)
    assert isinstance(pynvml.c_nvmlFieldValue_t().nvmlReturn, int)
    assert ctypes.sizeof(pynvml.c_nvmlMemory_t) == 24  # total, free, used


def test_the_environment_chooses_the_device_that_is_metered(install, monkeypatch):
    library = install(Library((FIRST, SECOND)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")

    measured("cuda:0")

    assert ("nvmlDeviceGetMemoryInfo", SECOND) in library.asked
    assert ("nvmlDeviceGetMemoryInfo", FIRST) not in library.asked
