"""Event logs of runs that never ran: 100 steps an epoch, batch 32, one step event each 10 steps and 10 seconds."""

import json
from pathlib import Path

from trainer.run import Run

BATCH = 32
STEPS_AN_EPOCH = 100


def start(t, resumed_step=0, epochs=2, **more):
    return {
        "t": t, "kind": "start", "version": "0.1.0", "mxnet": "1.9.1", "python": "3.11.7", "numpy": "1.23.5",
        "host": "here", "run": "r", "config": {}, "resumed_step": resumed_step, "epochs": epochs,
        "steps_total": int(epochs * STEPS_AN_EPOCH), "records_train": 3200, "records_val": 40, "devices": ["cpu(0)"],
        "decode_threads_effective": 2, "decoder": "simplejpeg", "input_memory_mb": 12, "classes": ["cat", "dog"],
        "learning_rate_peak": 0.1, "batch_size": BATCH, **more,
    }  # fmt: skip


def step(t, number, **more):
    return {
        "t": t, "kind": "step", "step": number, "steps_total": 200, "epoch": number / STEPS_AN_EPOCH, "epochs": 2,
        "samples": number * BATCH, "loss": 2 - number / 200, "learning_rate": 0.1, "images_per_second": 40.0,
        "data_wait_share": 0.1, "seconds_left": 1.0, **more,
    }  # fmt: skip


def steps(t, first, last):
    """Step events first, first + 10, ... last, one each 10 seconds from t on."""
    return [step(t + 10 * index, number) for index, number in enumerate(range(first, last + 1, 10))]


def validation(t, number, top1=0.75, **more):
    return {
        "t": t, "kind": "validation", "step": number, "epoch": number / STEPS_AN_EPOCH, "top1": top1, "top5": 1.0,
        "top_k": 5, "loss": 0.5, "records": 40, "seconds": 1.5, "confusion": [[18, 2], [8, 12]], **more,
    }  # fmt: skip


def checkpoint(t, number):
    return {"t": t, "kind": "checkpoint", "step": number, "seconds": 0.1, "bytes": 10, "path": f"checkpoints/{number}"}


def stop(t, number, reason="finished", **more):
    return {
        "t": t, "kind": "stop", "reason": reason, "step": number, "samples": number * BATCH, "train_seconds": 160.0,
        "wall_seconds": 200.0, **more,
    }  # fmt: skip


def sample(t, **more):
    return {
        "t": t, "images_per_second": None, "data_wait_share": None, "step_seconds": None, "steps": None,
        "decode_threads": None, "batch_size": None, "activity": "training",
        "cpu": {"idle": 20.0, "iowait": 5.0, "user": 70.0, "system": 5.0, "cores": 2},
        "host_memory": {"available_mb": 8000, "swap_mb_s": 0.0}, "disk": {"read_mb_s": 12.5, "util": 30.0}, **more,
    }  # fmt: skip


def finished(t=1000.0):
    return [
        start(t), *steps(t + 10, 10, 100), checkpoint(t + 101, 100), validation(t + 102, 100, 0.7),
        *steps(t + 110, 110, 200), checkpoint(t + 201, 200), validation(t + 202, 200, 0.75), stop(t + 203, 200),
    ]  # fmt: skip


def write_run(directory: Path, events=(), samples=(), config='run_directory = "/runs/r"\nbatch_size = 32\n') -> Run:
    directory.mkdir(parents=True, exist_ok=True)
    run = Run(directory)
    run.config.write_text(config)
    run.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    run.samples.write_text("".join(json.dumps(entry) + "\n" for entry in samples))
    return run
