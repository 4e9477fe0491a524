"""A run like the article's, as its files would tell it: it never ran.

16 GPUs jump between 100 % and idle while four threads decode; then there are 32 threads; then the spot market takes the
machine, and the run goes on in another zone.
"""

import fcntl
import json
import math
import random
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from trainer import lease
from trainer.run import Run

EXAMPLES = 1_281_167
EPOCHS = 100
ROOF = 792.0
GPUS = 16
SLOW, FAST = 402.0, 703.0
CHECKPOINT_SECONDS = 600
STEP_SECONDS = 4
_TUNED = ["decode_threads: 4 -> 32", "batch_size: 128 -> 1408"]


def write_recorded_run(
    directory: Path, now: float, seconds: int = 14_400, gpus: int = GPUS, examples: int = EXAMPLES
) -> Run:
    """A run that began `seconds` before `now` and trains still (nobody holds its lease, though)."""
    directory.mkdir(parents=True, exist_ok=True)
    run = Run(directory)
    run.config.write_text(
        'run_directory = "/srv/run"\nnetwork = "resnet"\nnum_layers = 50\nbatch_size = 1408\ndecode_threads = 32\n'
    )
    run.price.write_text(json.dumps(price(now, seconds)))
    run.tuning.write_text(json.dumps(tuning()))
    _Writer(now - seconds, seconds, gpus, examples).write(run)
    return run


@contextmanager
def training(run: Run, every_seconds: float = 1.0):
    """The run has a trainer and a sampler: one more sample, and one more step, each second until the block ends.

    Gives an event; while it is set, the sampler is silent.
    """
    over, silent = threading.Event(), threading.Event()
    last = next(
        event for line in reversed(run.events.read_text().splitlines()) if (event := json.loads(line))["kind"] == "step"
    )
    sample = json.loads(run.samples.read_text().splitlines()[-1])

    def append() -> None:
        while not over.wait(every_seconds):
            last.update(t=time.time(), step=last["step"] + 1, seconds_left=last["seconds_left"] - every_seconds)
            _append(run.events, last)
            if not silent.is_set():
                _append(run.samples, sample | {"t": time.time(), "steps": last["step"]})

    with lease.hold(run), open(run.samples, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread = threading.Thread(target=append)
        thread.start()
        try:
            yield silent
        finally:
            over.set()
            thread.join()


def _append(path: Path, entry: dict) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(entry) + "\n")


def price(now: float, seconds: int) -> dict:
    """The second machine's; the first one had cost its part before."""
    launched = now - 0.4 * seconds
    return {
        "instance_id": "i-0123456789abcdef0", "instance_type": "p2.16xlarge", "region": "us-west-2",
        "zone": "us-west-2b",
        "market": "spot", "price_usd_per_hour": 1.584, "on_demand_usd_per_hour": 14.4, "launched_at": launched,
        "spent_before_usd": round(1.71 * 0.55 * seconds / 3600, 2),
        "spent_before_on_demand_usd": round(14.4 * 0.55 * seconds / 3600, 2), "budget_usd": 150,
    }  # fmt: skip


def tuning() -> dict:
    return {
        "batch_size": 1408, "largest_batch": 1408, "sufficient_batch": 512, "decode_threads": 32,
        "images_per_second": FAST, "roof_images_per_second": ROOF, "attained_share": 0.888,
        "roofs": {"network": ROOF, "input": 3100.0},
        "start": {"batch_size": 128, "decode_threads": 4, "images_per_second": SLOW},
        "credit": {"decode_threads": 1.686, "batch_size": 1.037}, "batch_alone": 1.002, "confidence_share": 0.012,
        "noisy": False, "proven": True, "grid_seconds": 9000.0, "probes": 14, "notes": [], "seconds": 412.0,
    }  # fmt: skip


class _Writer:
    def __init__(self, began: float, seconds: int, gpus: int, examples: int):
        self.t0, self.seconds, self.gpus, self.examples = began, seconds, gpus, examples
        self.chance = random.Random(7)
        self.events, self.samples = [], []
        self.trained, self.step, self.saved = 0.0, 0, (0, 0)
        self.begin, self.batch = (0, 0), 128  # step and images at which a start went on
        self.epoch_validated, self.saved_at = 0, began

    def write(self, run: Run) -> None:
        tuned, taken = int(0.35 * self.seconds), int(0.55 * self.seconds)
        back = taken + max(60, int(0.04 * self.seconds))
        self._train(0, tuned, 4, 128, SLOW, "ip-10-0-3-17")
        self._stop(self.t0 + tuned, "signal")
        self._train(tuned + 20, taken, 32, 1408, FAST, "ip-10-0-3-17")
        lost = self.t0 + taken
        self.step, self.trained = self.saved
        self.epoch_validated = int(self.trained / self.examples)
        self._tell(self.t0 + back, "interrupted", reason="host_lost", host="ip-10-0-3-17", step=self.step, seen=lost)
        self._train(back, self.seconds, 32, 1408, FAST, "ip-10-1-9-80")
        run.events.write_text("".join(json.dumps(event) + "\n" for event in self.events))
        run.samples.write_text("".join(json.dumps(sample) + "\n" for sample in self.samples))

    @property
    def images(self) -> int:
        """Images of whole steps."""
        step, before = self.begin
        return before + (self.step - step) * self.batch

    def _count_steps(self) -> None:
        step, before = self.begin
        self.step = step + int((self.trained - before) / self.batch)

    def _tell(self, t: float, kind: str, **fields) -> None:
        self.events.append({"t": round(t, 3), "n": len(self.events) + 1, "kind": kind, **fields})

    def _train(self, begin: int, end: int, threads: int, batch: int, speed: float, host: str) -> None:
        self.begin, self.batch = (self.step, round(self.trained)), batch
        steps_total = self.step + int((EPOCHS * self.examples - self.trained) / batch)
        self._tell(
            self.t0 + begin, "start", version="0.9.0", mxnet="1.9.1", python="3.11.7", numpy="1.23.5", host=host,
            run="imagenet", config={"decode_threads": threads, "network": "resnet", "num_layers": 50},
            resumed_step=self.step, resumed_samples=self.images, epochs=EPOCHS, steps_total=steps_total,
            examples=self.examples, records_train=self.examples, records_val=50_000,
            devices=[f"gpu({number})" for number in range(self.gpus)], decode_threads_effective=threads,
            decoder="simplejpeg", input_memory_mb=900, classes=None, learning_rate_peak=0.55, batch_size=batch,
            explained=_TUNED if 0 < begin < 0.5 * self.seconds else [],
        )  # fmt: skip
        pause_until = begin + 8
        for second in range(begin, end):
            t = self.t0 + second
            trains = second >= pause_until
            if trains:
                self.trained += speed * self.chance.gauss(1, 0.01)
            self._count_steps()
            if trains and second % STEP_SECONDS == 0:
                self._tell_step(t, speed, threads, steps_total)
            if trains and t - self.saved_at >= CHECKPOINT_SECONDS:
                self._save(t)
            if trains and int(self.trained / self.examples) > self.epoch_validated:
                pause_until = second + max(4, min(60, self.seconds // 240))
                self._validate(t + pause_until - second, pause_until - second)
            self.samples.append(self._sample(t, speed, threads, batch, trains))

    def _tell_step(self, t: float, speed: float, threads: int, steps_total: int) -> None:
        epoch = self.images / self.examples
        left = (EPOCHS * self.examples - self.trained) / speed
        self._tell(
            t, "step", step=self.step, steps_total=steps_total, epoch=round(epoch, 4), epochs=EPOCHS,
            samples=self.images, loss=round(_loss(epoch) + self.chance.gauss(0, 0.06), 5),
            learning_rate=0.275 * (1 + math.cos(math.pi * epoch / EPOCHS)),
            images_per_second=round(speed * self.chance.gauss(1, 0.06 if threads == 4 else 0.012), 2),
            data_wait_share=round(max(0, self.chance.gauss(*((0.48, 0.04) if threads == 4 else (0.02, 0.008)))), 4),
            seconds_left=round(left, 1),
        )  # fmt: skip

    def _save(self, t: float) -> None:
        self.saved_at, self.saved = t, (self.step, self.images)
        self._tell(
            t,
            "checkpoint",
            step=self.step,
            seconds=2.4,
            blocked_seconds=0.4,
            bytes=205_000_000,
            path=f"checkpoints/{self.step}",
        )

    def _validate(self, t: float, seconds: int) -> None:
        self.epoch_validated += 1
        top1 = 0.765 * (1 - math.exp(-self.epoch_validated / 6.5))
        self._tell(
            t, "validation", step=self.step, epoch=round(self.images / self.examples, 4), top1=round(top1, 4),
            top5=round(min(0.93, 1.32 * top1 + 0.05), 4), top_k=5, loss=round(_loss(self.epoch_validated) - 0.15, 4),
            records=50_000, seconds=float(seconds), confusion=None,
        )  # fmt: skip

    def _stop(self, t: float, reason: str) -> None:
        self._save(t)
        self.trained = self.images
        self._tell(
            t, "stop", reason=reason, step=self.step, samples=self.images, train_seconds=1.0, wall_seconds=1.0
        )

    def _sample(self, t: float, speed: float, threads: int, batch: int, trains: bool) -> dict:
        starved = threads == 4
        user = 18.1 if starved else 66.0
        return {
            "t": t, "images_per_second": round(speed * self.chance.gauss(1, 0.02), 1) if trains else None,
            "data_wait_share": round(self.chance.gauss(0.48, 0.02), 3) if starved else 0.02,
            "step_seconds": round(batch / speed, 4), "steps": self.step, "decode_threads": threads, "batch_size": batch,
            "activity": "training" if trains else "validation", "gpus_expected": self.gpus,
            "decode_threads_asked": threads, "roof_images_per_second": ROOF,
            "gpus": [self._gpu(number, t, starved, trains) for number in range(self.gpus)],
            "cpu": {"idle": round(98 - user, 1), "iowait": 0.0 if starved else 0.6,
                    "user": round(user + self.chance.gauss(0, 1), 1),
                    "system": 1.4, "cores": 64},
            "host_memory": {"available_mb": 701_233, "swap_mb_s": 0.0},
            "disk": {"read_mb_s": round(speed * 0.117, 1), "util": 30.0},
        }  # fmt: skip

    def _gpu(self, number: int, t: float, starved: bool, trains: bool) -> dict:
        if not trains:
            util = self.chance.choice((0, 0, 40))
        elif starved:
            util = 100 if (t + self.chance.random() * 1.5) % 7 < 4 else 0
        else:
            util = min(100, round(self.chance.gauss(97.5, 1.6)))
        hot = 4 if number in (7, 11) else 0
        return {
            "index": number, "uuid": f"GPU-{number:08x}", "pci_bus_id": f"00000000:{15 + number:02X}:00.0",
            "util": util,
            "mem_used_mb": 1510 if starved else 10_912 + 8 * number, "mem_total_mb": 11_996,
            "power_w": round(62 + 0.82 * util + self.chance.gauss(0, 2), 1), "sm_clock_mhz": 875,
            "temperature_c": round(52 + hot + 0.16 * util + number % 3), "throttle": None,
        }  # fmt: skip


def _loss(epoch: float) -> float:
    return 1.35 + 5.55 * math.exp(-epoch / 3.2)
