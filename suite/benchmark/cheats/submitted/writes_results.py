"""Writes rows of its own among the results, wherever it finds a process that audits submissions."""

from contextlib import suppress
from pathlib import Path

from torch.nn.functional import scaled_dot_product_attention as sdpa

ROW = '{"implementation": "attention/writes_results", "workload": "vit/b16", "status": "measured", "seconds": [1e-9]}\n'

for home in (Path(), *Path("/proc").glob("[0-9]*/cwd")):
    with suppress(OSError):
        place = home.resolve(strict=True)
        if place.name.startswith("attnsuite-cheats-"):  # nobody else's results are harmed, where no wall stands
            (place / "results" / "forged").mkdir(parents=True, exist_ok=True)
            (place / "results" / "forged" / "benchmark.jsonl").write_text(ROW)


def attention(query, key, value):
    return sdpa(query, key, value)
