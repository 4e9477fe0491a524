"""A market of two regions with one cheap type, and a data set whose only snapshot is in the dearer of them."""

from pathlib import Path

from network import call
from tiny_data import CLASSES, write_records

from tests.rehearsal.machine import METADATA_URL

TYPE = "c6i.large"
HOME, CHEAP = "us-east-1", "us-west-2"
PICTURES = 2_000
SNAPSHOT = "snap-0123456789abcdef0"
IMAGE_PARAMETER = "/aws/service/debian/release/12/latest/amd64"
PROFILE = {
    "gpus": 0, "gpu_model": "none", "compute_capability": 0.0, "gpu_memory_mb": 0, "vcpus": 2, "memory_gb": 4,
    "architecture": "x86_64", "driver_branch": 535, "mxnet_wheel": "mxnet", "disk_naming": "nvme",
    "roof_images_per_second": 1000, "roof_source": "a guess", "interruptions_per_hour": 0.3,
}  # fmt: skip


def offer(region: str, zone: str, spot_usd: float) -> dict:
    return {
        "region": region, "zones": [f"{region}{zone}"], "instance_types": [TYPE], "on_demand_usd_per_hour": 0.085,
        "spot_usd_per_hour": spot_usd,
    }  # fmt: skip


def scenario(**changes) -> dict:
    """Prices in dollars an hour: 0.020 and 0.025 in the two zones of the cheap region, 0.040 where the data is."""
    return {
        "regions": {HOME: {"zones": {"us-east-1a": "use1-az6"}},
                    CHEAP: {"zones": {"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1"}}},
        "offers": [offer(HOME, "a", 0.04), offer(CHEAP, "a", 0.02), offer(CHEAP, "b", 0.025)],
        "images": [{"id": f"ami-{number}", "region": region, "ssm_parameter": IMAGE_PARAMETER}
                   for number, region in enumerate((HOME, CHEAP))],
        "snapshots": [{"id": SNAPSHOT, "region": HOME, "size_gib": 1, "tags": {"dataset": "squares"}}],
        "timing": [{"pending": "forever"}],
    } | changes  # fmt: skip


def settings(**changes) -> dict:
    """What differs from the inventory's settings: the machine, the data set, and a network that two cores can train."""
    return {
        "instance_profiles": {TYPE: PROFILE}, "spot_market_instance_types": [TYPE],
        "dataset_tags": {"dataset": "squares"}, "spot_market_images": PICTURES,
        "spot_instance_ssh_cidr": "127.0.0.1/32", "trainer_imds_url": METADATA_URL,
        "trainer_num_classes": CLASSES, "trainer_image_shape": [3, 28, 28], "trainer_num_layers": 8,
        "trainer_batch_size": 16, "trainer_epochs": 100_000, "trainer_augmentation": "none",
        "trainer_decode_threads": 1, "trainer_tune": "none", "trainer_checkpoint_interval": 10,
    } | changes  # fmt: skip


def data_set(folder: Path) -> Path:
    """The disk image of the snapshot: a file system with the packed data set."""
    records, image = folder / "records", folder / "data.img"
    records.mkdir()
    write_records(records / "train.rec", PICTURES)
    write_records(records / "val.rec", 40, seed=1)
    with image.open("wb") as file:
        file.truncate(1 << 30)
    call("mkfs.ext4", "-q", "-d", str(records), str(image))
    return image
