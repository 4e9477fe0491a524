"""Volumes by AWS's rules: one zone, one instance, states that take time."""

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.elastic_block_store import Volume, VolumeAttachment
from moto.ec2.responses import EC2Response
from moto.ec2.responses.elastic_block_store import ElasticBlockStore

from . import ledger
from .filters import keep
from .world import world

RATES_MIB = range(100, 301)  # what AWS allows as a volume's initialisation rate


def patch_volumes() -> None:
    made = Volume.__init__

    def init(self: Volume, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        self.multi_attach_enabled = bool(self.multi_attach_enabled)

    Volume.__init__ = init
    Volume.forced_status = ""
    VolumeAttachment.delete_on_termination = property(_ends_with_instance)
    Volume.status = property(lambda self: self.forced_status or ("in-use" if self.attachment else "available"))


def _ends_with_instance(attachment: VolumeAttachment) -> bool:
    mapping = attachment.instance.block_device_mapping.get(attachment.device)
    return bool(mapping and mapping.delete_on_termination)


def create_volume(call: EC2Response) -> ActionResult:
    call.error_on_dryrun()
    source = call.ec2_backend.get_snapshot(snapshot) if (snapshot := call._get_param("SnapshotId")) else None
    if source and source.status != "completed":
        raise EC2ClientError("IncorrectState", f"Snapshot is in invalid state - {source.status}")
    size, rate = call._get_param("Size"), call._get_param("VolumeInitializationRate")
    if source and size and int(size) < source.volume_size:
        text = f"The size of a volume cannot be smaller than the snapshot size ({source.volume_size})"
        raise EC2ClientError("InvalidParameterValue", text)
    if rate and (not source or int(rate) not in RATES_MIB):
        raise EC2ClientError("InvalidParameterValue", "VolumeInitializationRate needs a snapshot and 100 to 300 MiB/s")
    _check_speed(call, int(size or (source.volume_size if source else 1)))
    zone = call._get_param("AvailabilityZone")
    if call.ec2_backend.get_zone_by_name(zone) is None:
        raise EC2ClientError("InvalidZone.NotFound", f"The zone '{zone}' does not exist.")
    result = ElasticBlockStore.create_volume(call)
    _creating(result.result, call.region, rate)
    return result


def _check_speed(call: EC2Response, size: int) -> None:
    """gp3: 0.25 MiB/s at most for an operation a second, and of those above its own 3,000 at most 500 for each GiB."""
    if call._get_param("VolumeType") != "gp3":
        return
    iops, throughput = int(call._get_param("Iops") or 3000), int(call._get_param("Throughput") or 125)
    if throughput > iops * 0.25:
        text = f"Throughput (MiBps) to iops ratio of {throughput / iops:f} is too high; maximum is 0.250000"
        raise EC2ClientError("InvalidParameterCombination", text)
    if iops > max(3000, size * 500):
        text = f"Iops to volume size ratio of {iops / size:f} is too high; maximum is 500.000000"
        raise EC2ClientError("InvalidParameterCombination", text)


def _creating(volume: Volume, region: str, rate: str | None) -> None:
    timing = world().timing(region)
    volume.forced_status, volume.volume_initialization_rate = "creating", rate
    volume.initialised_at = world().offset() + timing.initialise
    world().born(volume.id)
    ledger.open_row("volume", volume, region)
    ends = "" if timing.volume_ends == "available" else "error"
    world().later(timing.volume, lambda: setattr(volume, "forced_status", ends))


def attach_volume(call: EC2Response) -> ActionResult:
    call.error_on_dryrun()
    volume = call.ec2_backend.get_volume(call._get_param("VolumeId"))
    instance = call.ec2_backend.get_instance(call._get_param("InstanceId"))
    device = call._get_param("Device")
    _check_attach(volume, instance, device)
    result = ElasticBlockStore.attach_volume(call)
    volume.attachment.status = "attaching"
    world().later(world().timing(call.region).attach, lambda: _attached(volume))
    return result


def _attached(volume: Volume) -> None:
    if volume.attachment and volume.attachment.status == "attaching":
        volume.attachment.status = "attached"


def _check_attach(volume: Volume, instance: Any, device: str) -> None:
    if volume.attachment:
        raise EC2ClientError("VolumeInUse", f"{volume.id} is already attached to an instance")
    if volume.status != "available":
        raise EC2ClientError("IncorrectState", f"Volume '{volume.id}' is not 'available'.")
    if instance.state not in ("running", "stopped", "stopping"):
        raise EC2ClientError("IncorrectState", f"Instance '{instance.id}' is not 'running'.")
    if volume.availability_zone != instance.availability_zone:
        text = f"The volume '{volume.id}' is not in the same availability zone as instance '{instance.id}'"
        raise EC2ClientError("InvalidVolume.ZoneMismatch", text)
    if device in instance.block_device_mapping:
        text = f"Invalid value '{device}' for unixDevice. Attachment point {device} is already in use"
        raise EC2ClientError("InvalidParameterValue", text)


def detach_volume(call: EC2Response) -> dict[str, Any]:
    call.error_on_dryrun()
    volume = call.ec2_backend.get_volume(call._get_param("VolumeId"))
    attachment = volume.attachment
    if not attachment:
        raise EC2ClientError("IncorrectState", f"Volume '{volume.id}' is in the 'available' state.")
    attachment.status = "detaching"
    world().later(world().timing(call.region).detach, lambda: _detached(volume, attachment))
    return {
        "VolumeId": volume.id,
        "InstanceId": attachment.instance.id,
        "Device": attachment.device,
        "State": "detaching",
        "AttachTime": attachment.attach_time,
    }


def _detached(volume: Volume, attachment: Any) -> None:
    if volume.attachment is attachment:
        volume.ec2_backend.detach_volume(volume.id, attachment.instance.id, attachment.device)


def delete_volume(call: EC2Response) -> ActionResult:
    volume = call.ec2_backend.get_volume(call._get_param("VolumeId"))
    if volume.forced_status == "creating":
        raise EC2ClientError("IncorrectState", f"The volume '{volume.id}' is 'creating'")
    return ElasticBlockStore.delete_volume(call)


def describe_volumes(call: EC2Response) -> ActionResult:
    result = ElasticBlockStore.describe_volumes(call)
    result.result["Volumes"] = [one for one in result.result["Volumes"] if world().is_seen(one.id, call.region)]
    return result


STATUS_KEYS = {
    "availability-zone": lambda row: row["AvailabilityZone"],
    "volume-status.status": lambda row: row["VolumeStatus"]["Status"],
}


def describe_volume_status(call: EC2Response) -> dict[str, Any]:
    call.error_on_dryrun()
    volumes = call.ec2_backend.describe_volumes(call._get_param("VolumeIds", []))
    rows = [_status_row(volume) for volume in volumes]
    return {"VolumeStatuses": keep(rows, call._get_param("Filters", []), STATUS_KEYS)}


def _status_row(volume: Volume) -> dict[str, Any]:
    left = max(0.0, getattr(volume, "initialised_at", 0.0) - world().offset())
    total = world().timing(volume.ec2_backend.region_name).initialise
    row = {
        "VolumeId": volume.id,
        "AvailabilityZone": volume.availability_zone,
        "Actions": [],
        "Events": [],
        "VolumeStatus": {"Status": "ok", "Details": [{"Name": "io-enabled", "Status": "passed"}]},
    }
    if volume.snapshot_id:
        kind = "provisioned-rate" if getattr(volume, "volume_initialization_rate", None) else "default"
        progress = 100 if not total else int(100 * (1 - left / total))
        details = {"InitializationType": kind, "Progress": progress}
        row["InitializationStatusDetails"] = details | ({"EstimatedTimeToCompleteInSeconds": int(left)} if left else {})
    return row
