"""How a worker starts, and why it cannot."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from workers import LIMIT, SUBMISSIONS, answered, call

from attnsuite.model import UsageError
from attnsuite.registry import Broken, Missing, find
from attnsuite.worker.worker import Ready, Worker

Write = Callable[[str, str], Path]


def test_starting_happens_in_the_background(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    monkeypatch.setenv("ATTNSUITE_TEST_STARTED", str(started))
    with Worker(str(SUBMISSIONS / "waits_at_import" / "kernel.py"), time_limit=LIMIT) as worker:
        worker.start()
        started.touch()  # a start that waits for the import does not come to this
        reply = answered(worker.run_calls([call()]))[0]
    assert reply.output is not None, reply.error
    assert reply.output.dtype == torch.float32, "what an import changes is undone, here as in the parent"
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("import nosuch", "ModuleNotFoundError: No module named 'nosuch' (kernel.py, line 2)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import os; print('adieu'); os._exit(9)", "crashed: exit status 9; the last it printed: adieu"),
        ("import time; time.sleep(600)", "timeout: its import did not end within 4 s; --time-limit 8 allows more"),
    ],
)
def test_an_import_that_fails_is_every_answer(write: Write, text: str, answer: str) -> None:
    file = write("kernel.py", f"def attention(query, key, value): ...\n{text}")
    limit = 4 if "sleep" in text else LIMIT
    with Worker(str(file), start_limit=limit) as worker:
        assert str(worker.ready()) == answer
        before = time.monotonic()
        assert str(worker.run_calls([call()])) == answer
        assert time.monotonic() - before < 1, "it is not tried again"


def test_missing_and_broken_implementations_say_so(write: Write) -> None:
    missing = write(
        "m.py", "from attnsuite import implementation\n@implementation(requires=['nosuch'])\ndef attention(): ..."
    )
    with Worker(str(missing)) as worker:
        assert worker.run_calls([call()]) == Missing(worker.declaration, "No module named 'nosuch'")
    broken = write("b.py", "def attention(:")
    with Worker(str(broken)) as worker:
        assert isinstance(worker.ready(), Broken)


def test_mistakes_of_the_user_are_usage_errors(write: Write) -> None:
    file = write("kernel.py", "made = 3\ndef one(): ...\ndef two(): ...")
    with Worker(str(file)) as worker, pytest.raises(UsageError, match="has one, two: name one"):
        worker.ready()
    with pytest.raises(UsageError, match="a worker runs one implementation, but 'torch_sdpa' names"):
        Worker("torch_sdpa")
    with Worker(f"{file}:made") as worker, pytest.raises(UsageError, match="cannot be called: it is of type int"):
        worker.ready()


def test_a_ready_worker_knows_the_parameters(write: Write) -> None:
    file = write("kernel.py", "from functools import partial\nattention = partial(lambda q, k, v, *, scale, x: 0, x=1)")
    (declaration,) = find([f"{file}:attention"])
    assert declaration.parameters is None
    with Worker(declaration) as worker:
        assert isinstance(ready := worker.ready(), Ready), ready
        assert worker.declaration.parameters == ("q", "k", "v", "scale", "x")
