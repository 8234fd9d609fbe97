"""A service after which replies have something odd in place of what the worker says beside an answer."""

import torch

from attnsuite.worker import __main__ as worker


def begin():
    send = worker._send

    def changed(channel, message):
        odd = message.pop("answer", None) if isinstance(message, dict) else None
        send(channel, {**message, **odd} if isinstance(odd, dict) else message)

    worker._send = changed
    return lambda function, device: answer


def answer(verb, arguments):
    return {"lost": "a device"} if verb == "word" else {verb: torch.zeros(2)}
