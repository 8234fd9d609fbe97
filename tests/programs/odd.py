"""A service after which replies have something odd in place of what the worker says beside an answer."""

import torch

from attnsuite.worker import __main__ as worker


def begin():
    send = worker._send

    def changed(channel, message):
        odd = getattr(message, "answer", None)
        for name in odd if isinstance(odd, dict) else ():
            setattr(message, name, odd[name])
        send(channel, message)

    worker._send = changed
    return lambda function, device: answer


def answer(verb, arguments):
    return {"lost": "a device"} if verb == "word" else {verb: torch.zeros(2)}
