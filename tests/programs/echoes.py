"""A service that answers turns with its inputs, after a call of the submission `misbehaves.py` in a mode."""

import torch

from attnsuite.worker.turns import take_turns


class Echo:
    def __init__(self, function, mode, larger):
        self.place = bytearray(8)
        self.call = lambda: function(*[torch.ones(2)] * 3, mode=mode)
        self.larger = larger

    def reply(self, called):
        if called:
            self.call()
        return [memoryview(self.place), *[memoryview(bytes(2**21))] * self.larger]


def begin():
    return lambda function, device: lambda verb, arguments: reply(function, **arguments)


def reply(function, channel, mode="", larger=False):
    echo = Echo(function, mode, larger)
    take_turns(channel, list, [memoryview(echo.place)[:3], memoryview(echo.place)[3:]], echo.reply)
    return "done"
