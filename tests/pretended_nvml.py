"""A fake pynvml of a machine with H200s."""

import json
from types import SimpleNamespace

from attnsuite.machine.telemetry import Meter

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
    """pynvml on a machine with H200s; `fails` maps a function's name to the error that it raises."""

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

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return 0x4


def measured(device=FIRST):
    with Meter(device) as meter:
        pass
    assert json.loads(json.dumps(meter.telemetry)) == meter.telemetry
    return meter.telemetry


def all_absent(found, reason):
    return [(found[name], found[f"{name}_absent"]) for name in FIELDS] == [(None, reason)] * len(FIELDS)
