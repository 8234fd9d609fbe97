"""A service that answers turns with its inputs, after a call of the submission `misbehaves.py` in a mode."""

import torch

from attnsuite.worker.turns import take_turns


class Echo:
    def __init__(self, function, mode, larger):
        self.place = bytearray(8)
        self.call = lambda: function(*[torch.ones(2)] * 3, mode=mode)
        self.larger = larger

    def warm(self): ...

    def room(self):
        return [memoryview(self.place)[:3], memoryview(self.place)[3:]]

    def answer(self, called):
        if called:
            self.call()
        return [memoryview(self.place), *[memoryview(bytes(2**21))] * self.larger]


def begin():
    return lambda function, device: lambda verb, arguments: answer(function, **arguments)


def answer(function, channel, mode="", larger=False):
    take_turns(channel, Echo(function, mode, larger))
    return "done"
