"""A service that answers turns with its inputs, after a call of the submission `misbehaves.py` in a mode."""

import torch

from attnsuite.worker.turns import take_turns


class Echo:
    def __init__(self, function, mode, larger):
        self.place = bytearray(8)
        self.call = lambda: function(*[torch.ones(2)] * 3, mode=mode)
        self.larger = larger

    def warm(self): ...

    def input_buffers(self):
        return [memoryview(self.place)[:3], memoryview(self.place)[3:]]

    def reply(self, called):
        if called:
            self.call()
        return [memoryview(self.place), *[memoryview(bytes(2**21))] * self.larger]


def begin():
    return lambda function, device: lambda verb, arguments: reply(function, **arguments)


def reply(function, channel, mode="", larger=False):
    take_turns(channel, Echo(function, mode, larger))
    return "done"
