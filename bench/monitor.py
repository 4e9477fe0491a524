"""What watching costs: training beside a monitor that samples and serves, against training while the monitor is frozen.

Each pair is two stretches of the same number of steps in one process, in random order; for one of them the monitor's
processes are stopped by SIGSTOP. The monitor serves ten pages and is scraped each second. The ratio of the two times is
what training loses.

Other processes disturb the clock much more than a monitor does. So the same is computed from the monitor's processor
time: as if training lost every second of a processor that the monitor uses. On a machine that others use, this decides.
"""

import argparse
import http.client
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench import checkpoint as training  # noqa: E402
from trainer import lease  # noqa: E402
from trainer.learn.parameters import wait_for_statistics  # noqa: E402
from trainer.learn.session import open_checked, train_loader  # noqa: E402
from trainer.observe import events  # noqa: E402
from trainer.run import Run  # noqa: E402

MOST_LOSS = 0.01
WATCHERS = 10
NETWORK = "resnet8, 28 px, batch 64"


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if _measure(Path(folder), options) else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="pairs of stretches (%(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of one stretch, about (%(default)s)")
    return parser.parse_args()


def _measure(folder: Path, options: argparse.Namespace) -> bool:
    config = training._config(folder, training.NETWORKS[NETWORK])
    run = Run(config.run_directory)
    records = open_checked(config.data_train, config)
    with closing(records), closing(train_loader(records, config, report=None)) as loader:
        loop = training._loop(config, records, loader, lambda kind, **fields: None)
        loop.report = events.event_writer(run.events)
        run.config.write_text(config.to_toml())
        loop.report("start", devices=list(config.devices), batch_size=config.batch_size, resumed_step=0)
        with closing(loop.saver), lease.hold(run), closing(loader.at(0, 0)) as batches, _monitor(run) as processes:
            step = min(_stretch(loop, batches, 3) for _ in range(3)) / 3
            steps = max(3, round(options.seconds / step))
            pairs = [_pair(loop, batches, steps, processes) for _ in range(options.pairs)]
    return _show(pairs, steps)


def _pair(loop, batches, steps: int, processes: list[psutil.Process]) -> tuple[float, float, float]:
    """Seconds with and without the monitor, and its processor seconds."""
    found, used = {}, 0.0
    for watched in random.sample([True, False], 2):
        for process in processes:
            process.send_signal(signal.SIGCONT if watched else signal.SIGSTOP)
        before = _processor_seconds(processes)
        found[watched] = _stretch(loop, batches, steps)
        used += _processor_seconds(processes) - before if watched else 0.0
    return found[True], found[False], used


def _stretch(loop, batches, steps: int) -> float:
    began = time.monotonic()
    for _ in range(steps):
        loop._step(batches)
        loop._report_if_due()
    wait_for_statistics()
    return time.monotonic() - began


def _processor_seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


@contextmanager
def _monitor(run: Run):
    """The server and the sampler that it starts, with people who watch and a Prometheus that asks."""
    command = [sys.executable, "-m", "trainer", "monitor", "--run", str(run.directory), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().split(": ", 1)[1].strip()
        for path, count in (("events", WATCHERS), ("metrics", 1)):
            for _ in range(count):
                threading.Thread(target=_read, args=(url + path,), daemon=True).start()
        while not (children := psutil.Process(server.pid).children()) or not run.samples.exists():
            time.sleep(0.1)
        time.sleep(3)  # the imports of both
        try:
            yield [psutil.Process(server.pid), *children]
        finally:
            for process in (psutil.Process(server.pid), *children):
                process.send_signal(signal.SIGCONT)
                process.terminate()


def _read(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            with opener.open(url, timeout=60) as answer:
                while answer.read(1 << 12):
                    pass
        except (OSError, http.client.HTTPException):  # the monitor has ended
            return
        time.sleep(1)


def _show(pairs: list[tuple[float, float, float]], steps: int) -> bool:
    by_clock = median(watched / alone for watched, alone, _ in pairs) - 1
    by_processor = sum(used for *_, used in pairs) / sum(watched for watched, *_ in pairs) / os.cpu_count()
    load, others = os.getloadavg()[0], os.getloadavg()[0] > os.cpu_count() + 1
    print(f"{NETWORK}: {len(pairs)} pairs of {steps} steps, {WATCHERS} pages and a scrape each second")
    for measure, loss in (("clock", by_clock), ("processor time", by_processor)):
        print(f"  lost by the {measure}: {loss:.2%}: {'ok' if loss < MOST_LOSS else 'MISSED'} {MOST_LOSS:.0%}")
    print(f"  load average {load:.1f}{': others use this machine, so the processor time decides' if others else ''}")
    return (by_processor if others else by_clock) < MOST_LOSS


if __name__ == "__main__":
    main()
