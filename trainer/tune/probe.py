"""One probe in a process of its own, because one that ran out of device memory stays poisoned.

Reads one line of JSON from standard input: `config` (a configuration's values), `what`, `most_seconds`,
`confidence_share`, `noise`, `epoch_images`. Writes
one line: `rates` and `memory_mb`, or `too_large` (why the batch does not fit). Ends when its standard input does: with
the process that asked.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from trainer.config import Config, build
from trainer.errors import TooLargeError, TrainerError
from trainer.tune.figures import is_known

# Of one measurement.
STRETCH_SECONDS = 2.0


def main() -> int:
    request = json.loads(sys.stdin.readline())
    # Libraries print to standard output, too.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        print(json.dumps(_answer(request)), file=answer, flush=True)
    except TrainerError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def _answer(request: dict) -> dict:
    config = build(request["config"], source="the probe", folder=Path.cwd())
    try:
        if request["what"] == "disk":
            from trainer.tune.disk import disk_rates

            return {"rates": _taken(disk_rates(config.data_train), request)}
        return _with_mxnet(config, request)
    except (TooLargeError, MemoryError) as error:
        return {"too_large": str(error) or "no memory left"}


def _with_mxnet(config: Config, request: dict) -> dict:
    from trainer.learn.devices import memory_of_devices, set_environment, telling_short_memory

    set_environment(config)
    with telling_short_memory():
        rates = _rates(config, request)
    used_mb, limit_mb = memory_of_devices(config)
    return {"rates": rates, "memory_mb": used_mb, "memory_limit_mb": limit_mb}


def _rates(config: Config, request: dict) -> list[float]:
    """What is asked for; "memory" measures nothing."""
    from trainer.learn import measure
    from trainer.tune import training

    what = request["what"]
    if what == "input":
        return _taken(measure.input_rates(config), request)
    if what in ("network", "float32"):
        return _taken(measure.network_rates(config), request)
    if what == "training":
        return training.training_rates(config, _enough(request))
    if what == "proof":
        return training.proof_rates(config, _enough(request), request["epoch_images"])
    return []


def _taken(rates: Iterator[float], request: dict) -> list[float]:
    found, is_enough = [], _enough(request)
    with closing(rates):
        for rate in rates:
            found.append(rate)
            if is_enough(found):
                return found
    return found


def _enough(request: dict) -> Callable[[list[float]], bool]:
    """True when the rates are known well, or when the time is up; its clock starts with the first rate."""
    first_at = None

    def is_enough(rates: list[float]) -> bool:
        nonlocal first_at
        first_at = first_at or time.monotonic()
        seconds = time.monotonic() - first_at + STRETCH_SECONDS
        return is_known(rates, request["confidence_share"], request["noise"]) or seconds >= request["most_seconds"]

    return is_enough


if __name__ == "__main__":
    sys.exit(main())
