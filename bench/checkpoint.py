"""What checkpoints cost: training with a save against training without, in turn; and from a notice to the disk.

Each pair is two stretches of the same number of steps in one process, in random order, one of them with a save that
begins at its first step and ends within it. Their difference is what one save costs, whatever it is lost by: the copy,
the wait for the devices, the writing thread's share of the processors. From that, the throughput with a save every 60 s
is computed as 1 - cost / 60. The bound is one-sided at 95 %, by resampling the pairs.

Other processes disturb the clock much more than a save does. So the same is computed from the processor time of this
process: as if training stood still while a processor works for the save, which is more than it can lose by that. On a
machine that others use, this decides.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median

import numpy as np
import simplejpeg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from trainer.config import build  # noqa: E402
from trainer.data.record_writer import RecordWriter  # noqa: E402
from trainer.learn import resume  # noqa: E402
from trainer.learn.checkpoint import Progress  # noqa: E402
from trainer.learn.loop import Loop  # noqa: E402
from trainer.learn.parameters import wait_for_statistics  # noqa: E402
from trainer.learn.saver import Saver  # noqa: E402
from trainer.learn.session import make_stepper, open_checked, train_loader  # noqa: E402
from trainer.learn.writer import Writer  # noqa: E402
from trainer.observe import events  # noqa: E402
from trainer.run import Run  # noqa: E402
from trainer.spot.practice import Practice, serving  # noqa: E402
from trainer.spot.stop import StopRequest  # noqa: E402

INTERVAL_SECONDS = 60.0
LEAST_RATIO, AIM = 0.98, 0.99
MOST_STEP_RATIO = 1.10
MOST_DURABLE_SECONDS = 30.0
RESAMPLES = 10_000
_COMMON = {
    "epochs": 1000, "warmup_epochs": 0, "learning_rate": 1e-3, "checkpoint_interval": 1e9, "decode_threads": 1,
    "checkpoints_kept": 2, "display_steps": 1,
}  # fmt: skip
NETWORKS = {
    "resnet8, 28 px, batch 64": {"num_layers": 8, "image_shape": [3, 28, 28], "num_classes": 10, "batch_size": 64},
    "resnet50, 224 px, batch 8": {"num_layers": 50, "image_shape": [3, 224, 224], "num_classes": 1000, "batch_size": 8},
}
NOTICE = "resnet50, 224 px, batch 8"


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        failed = [name for name in NETWORKS if not _costs(Path(folder), name, options)]
        if options.notices:
            failed += [] if _notices(Path(folder), options.notices) else ["notice"]
    sys.exit(bool(failed))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=8, help="pairs of stretches for each network (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one stretch, at least (%(default)s)")
    parser.add_argument("--notices", type=int, default=2, help="notices to a ResNet-50 at 224 px (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where the checkpoints go: on the disk to be measured")
    return parser.parse_args()


def _costs(folder: Path, name: str, options: argparse.Namespace) -> bool:
    config = _config(folder, NETWORKS[name])
    log: list[tuple[str, dict]] = []
    records = open_checked(config.data_train, config)
    with closing(records), closing(train_loader(records, config, report=None)) as loader:
        loop = _loop(config, records, loader, lambda kind, **fields: log.append((kind, fields)))
        with closing(loader.at(0, 0)) as batches, closing(loop.saver):
            steps = _steps_a_stretch(loop, batches, options.seconds)
            pairs = [_pair(loop, batches, steps) for _ in range(options.pairs)]
            single = [_pair(loop, batches, 1) for _ in range(options.pairs)]
    shutil.rmtree(config.run_directory)
    saves = [fields for kind, fields in log if kind == "checkpoint"]
    return _show(name, steps, pairs, single, saves)


def _loop(config, records, loader, report) -> Loop:
    run = Run(config.run_directory)
    run.directory.mkdir(parents=True)
    stepper, _ = make_stepper(config)
    saver = Saver(Writer(run, config.checkpoints_kept, {}, lambda: True), config, report)
    described = resume.description(config, records, None, loader.decoder)
    return Loop(config, run, stepper, loader, None, report, StopRequest(), Progress(), saver, described)


def _steps_a_stretch(loop: Loop, batches, seconds: float) -> int:
    """As many as take that long, and three times as long as a save."""
    for _ in range(3):
        loop._step(batches)
    wait_for_statistics()
    began = time.monotonic()
    loop._save_in_background()
    loop.saver.wait()
    saving = time.monotonic() - began
    step = min(_timed(loop, batches, 1, save=False)[0] for _ in range(3))
    return max(2, round(max(seconds, 3 * saving) / step))


def _pair(loop: Loop, batches, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(seconds, processor seconds) of a stretch with a save and of one without."""
    order = random.sample([True, False], 2)
    found = {save: _timed(loop, batches, steps, save) for save in order}
    return found[True], found[False]


def _timed(loop: Loop, batches, steps: int, save: bool) -> np.ndarray:
    began, processor_began = time.monotonic(), time.process_time()
    if save:
        loop._save_in_background()
    for _ in range(steps):
        loop._step(batches)
    wait_for_statistics()
    seconds = time.monotonic() - began
    if steps > 1 and loop.saver.busy:
        raise SystemExit("a save took longer than the stretch that it is measured in: --seconds must be larger")
    loop.saver.wait()
    return np.array([seconds, time.process_time() - processor_began])


def _show(name: str, steps: int, pairs: list, single: list, saves: list[dict]) -> bool:
    costs = np.array([with_save - without for with_save, without in pairs])
    longer = median(with_save[0] for with_save, _ in single) / median(without[0] for _, without in single)
    print(
        f"{name}: {saves[0]['bytes'] / 1e6:.1f} MB a checkpoint, {len(pairs)} pairs of {steps} steps "
        f"({median(without[0] for _, without in pairs):.2f} s)\n"
        f"  one save: {1000 * median(s['blocked_seconds'] for s in saves):.1f} ms until training goes on, "
        f"{1000 * median(s['seconds'] for s in saves):.0f} ms until it is on disk"
    )
    by_clock, by_processor = (_throughput(*pair) for pair in zip(("clock", "processor time"), costs.T, strict=True))
    print(f"  the step that saves: {longer:.3f} of the others: {_verdict(longer <= MOST_STEP_RATIO)} {MOST_STEP_RATIO}")
    others = os.getloadavg()[0] > os.cpu_count()
    print(f"  load average {os.getloadavg()[0]:.1f}{': others use this machine' if others else ''}", flush=True)
    return by_processor if others else by_clock and longer <= MOST_STEP_RATIO


def _throughput(measure: str, costs: np.ndarray) -> bool:
    ratio, bound = (1 - cost / INTERVAL_SECONDS for cost in (costs.mean(), _upper_bound(costs)))
    print(
        f"  throughput with a save every {INTERVAL_SECONDS:g} s, by the {measure}: {1000 * costs.mean():.0f} ms lost a "
        f"save, {ratio:.4f} of that without, at least {bound:.4f} (95 %): {_verdict(bound >= LEAST_RATIO)} "
        f"{LEAST_RATIO}, {_verdict(bound >= AIM)} {AIM}"
    )
    return bound >= LEAST_RATIO


def _upper_bound(costs: np.ndarray) -> float:
    generator = np.random.default_rng(0)
    means = generator.choice(costs, (RESAMPLES, len(costs))).mean(axis=1)
    return float(np.quantile(means, 0.95))


def _notices(folder: Path, count: int) -> bool:
    config = _config(folder, NETWORKS[NOTICE])
    seconds = [_notice(config, number) for number in range(count)]
    print(
        f"{NOTICE}: from the notice to the checkpoint on disk: {max(seconds):.1f} s at most in {count} "
        f"notices: {_verdict(max(seconds) < MOST_DURABLE_SECONDS)} {MOST_DURABLE_SECONDS:g} s"
    )
    return max(seconds) < MOST_DURABLE_SECONDS


def _notice(config, number: int) -> float:
    """Of one notice by a practice metadata service, at a random moment between two polls and in a step."""
    run = Run(config.run_directory.with_name(f"notice-{number}"))
    run.directory.mkdir(parents=True)
    command = [sys.executable, "-m", "trainer", "train", "--config", run.config]
    with serving(Practice()) as practice:
        changes = {"run_directory": run.directory, "imds_url": practice.url}
        run.config.write_text(config.model_copy(update=changes).to_toml())
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not _has_stepped(run):
                time.sleep(0.1)
            time.sleep(random.uniform(0, 5))
            noticed = time.time()
            practice.give_notice()
            if process.wait():
                raise SystemExit(f"training ended with {process.returncode}: {' '.join(map(str, command))}")
    return max(event["t"] for event in events.read(run.events) if event["kind"] == "checkpoint") - noticed


def _has_stepped(run: Run) -> bool:
    return any(event["kind"] == "step" and event["step"] >= 2 for event in events.read(run.events))


def _config(folder: Path, values: dict):
    pixels = values["image_shape"][1]
    path = folder / f"{pixels}.rec"
    if not path.exists():
        _write_records(path, pixels)
    values = _COMMON | values | {"data_train": str(path), "run_directory": str(folder / f"run-{pixels}")}
    return build(values, source="bench", folder=folder)


def _write_records(path: Path, pixels: int, count: int = 256) -> None:
    generator = np.random.default_rng(0)
    with RecordWriter(path) as writer:
        for key in range(count):
            picture = generator.integers(0, 255, (pixels, pixels, 3), dtype=np.uint8)
            writer.write(key, float(key % 10), simplejpeg.encode_jpeg(picture, quality=90))
        writer.publish()


def _verdict(ok: bool) -> str:
    return "ok" if ok else "MISSED"


if __name__ == "__main__":
    main()
