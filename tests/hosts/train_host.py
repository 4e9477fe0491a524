"""A host that trains: its volume, its settings, and what it says of itself."""

import json

import host as hosts
from host import Host, wait
from network import call
from plays import Played, play
from tiny_data import CLASSES, write_records

VOLUME = "vol-0123456789abcdef0"
RUN = "/data/run/squares"
ROLES = ["data_volume", "trainer"]
SETTINGS = {
    "data_volume_id": VOLUME, "data_volume_wait_seconds": 20, "data_volume_device_timeout_seconds": 3,
    "trainer_service": True, "trainer_code_directory": "/opt/trainer", "trainer_python": "/opt/mxnet/bin/python",
    "trainer_data_directory": "/data/sets", "trainer_runs_directory": "/data/run", "trainer_run_name": "squares",
    "trainer_data_train": "/data/train.rec", "trainer_data_val": "/data/val.rec", "trainer_num_classes": CLASSES,
    "trainer_image_shape": [3, 28, 28], "trainer_num_layers": 8, "trainer_batch_size": 16, "trainer_epochs": 100000,
    "trainer_augmentation": "none", "trainer_decode_threads": 1, "trainer_checkpoint_interval": 30,
    "trainer_watchdog_seconds": 20, "trainer_required_paths": ["/data/.data-volume.json"],
}
# A run that is over in seconds.
SHORT = {"trainer_run_name": "short", "trainer_epochs": 0.02, "trainer_warmup_epochs": 0}
PRICE = {
    "instance_id": "i-0123456789abcdef0", "instance_type": "p2.16xlarge", "region": "us-west-2", "zone": "us-west-2a",
    "market": "spot", "price_usd_per_hour": 1.584, "on_demand_usd_per_hour": 14.4, "launched_at": 1796000000,
    "spent_before_usd": 0, "spent_before_on_demand_usd": 0, "budget_usd": None,
}


def configure(host: Host, *options: str, environment: dict | None = None, **settings) -> Played:
    return play(host, ROLES, SETTINGS | settings, *options, **(environment or {}))


def boot(layers, folder) -> Host:
    """A host with MXNet and a volume that holds train.rec and val.rec."""
    records, image = folder / "records", folder / "data.img"
    records.mkdir()
    write_records(records / "train.rec", 20_000)
    write_records(records / "val.rec", 40, seed=1)
    with open(image, "wb") as file:
        file.truncate(128 << 20)
    call("mkfs.ext4", "-q", "-d", str(records), str(image))
    booted = hosts.up(layers)
    booted.attach(VOLUME, image)
    be_nice(booted)
    return booted


def be_nice(host: Host) -> None:
    """The plays share this machine's cores with the training."""
    drop_in = "/etc/systemd/system/trainer.service.d"
    host.run(f"mkdir {drop_in} && printf '[Service]\\nNice=19\\n' > {drop_in}/nice.conf")


def events(host: Host, kind: str, run: str = RUN) -> list[dict]:
    lines = host.run(f"cat {run}/events.jsonl", check=False).stdout.splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def unit(host: Host, name: str, unit: str = "trainer.service") -> str:
    return host.read(f"systemctl show -P {name} {unit}")


def wait_for_start(host: Host, count: int, run: str = RUN) -> None:
    """Until the trainer was started that many times and has steps again."""
    wait(lambda: len(events(host, "start", run)) >= count, 90, f"start {count} of the trainer")
    wait(lambda: unit(host, "ActiveState") == "active", 90, "its first step")
