"""Snapshots: made, copied between regions with the right key, restored fast."""

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.elastic_block_store import Snapshot
from moto.ec2.responses import EC2Response
from moto.ec2.responses.elastic_block_store import ElasticBlockStore
from moto.kms.models import kms_backends

from . import ledger
from .filters import keep
from .instances import ACCOUNT, backend
from .world import world


def patch_snapshots() -> None:
    Snapshot.state_message = None
    Snapshot.begun, Snapshot.lasts = 0.0, 0.0
    Snapshot.progress = property(_progress)


def _progress(snapshot: Snapshot) -> str:
    if snapshot.status != "pending":
        return "100%" if snapshot.status == "completed" else ""
    return f"{min(99, int(100 * (world().offset() - snapshot.begun) / max(snapshot.lasts, 1e-9)))}%"


def pending(snapshot: Snapshot, seconds: float, ends: str, message: str | None = None, source: str = "") -> None:
    """A snapshot that is completed, or ends in error with a message, after so many seconds."""
    snapshot.status, snapshot.begun, snapshot.lasts = "pending", world().offset(), seconds
    world().born(snapshot.id)
    ledger.open_row("snapshot", snapshot, snapshot.ec2_backend.region_name, copied_from=source)
    world().later(seconds, lambda: _ended(snapshot, ends, message))


def _ended(snapshot: Snapshot, ends: str, message: str | None) -> None:
    snapshot.status = ends
    snapshot.state_message = message if ends == "error" else None


def create_snapshot(call: EC2Response) -> ActionResult:
    result = ElasticBlockStore.create_snapshot(call)
    pending(result.result, world().timing(call.region).snapshot, "completed")
    return result


def copy_snapshot(call: EC2Response) -> ActionResult:
    """A copy into the region that is called. A key that cannot be used shows only later, as state `error`."""
    call.error_on_dryrun()
    source = backend(call._get_param("SourceRegion")).get_snapshot(call._get_param("SourceSnapshotId"))
    if source.status != "completed":
        raise EC2ClientError("IncorrectState", f"Snapshot '{source.id}' is in the '{source.status}' state.")
    key, default = call._get_param("KmsKeyId"), getattr(call.ec2_backend, "ebs_encryption_by_default", False)
    encrypted = source.encrypted or call._get_bool_param("Encrypted", False) or default
    if key and not encrypted:
        raise EC2ClientError("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted.")
    result = ElasticBlockStore.copy_snapshot(call)
    copy = call.ec2_backend.snapshots[result.result["SnapshotId"]]
    copy.encrypted, copy.copied_from = encrypted, source.id
    _start_copy(source, copy, call.region, key)
    return result


def _start_copy(source: Snapshot, copy: Snapshot, region: str, key: str | None) -> None:
    timing = world().timing(region)
    ends, message = timing.copying_ends, timing.copying_message
    usable = not source.kms_key_id or key_arn(source.ec2_backend.region_name, source.kms_key_id)
    if copy.encrypted:
        copy.kms_key_id = key_arn(region, key) if key else copy.ec2_backend._create_default_encryption_key()
        usable = usable and copy.kms_key_id
    if not usable:
        ends, message = "error", "Given key ID is not accessible"
    pending(copy, timing.copying, ends, message, source.ec2_backend.region_name)


def key_arn(region: str, name: str) -> str | None:
    """The ARN of an enabled key, from its id, ARN or alias; None when the region has no such key."""
    try:
        key = kms_backends[ACCOUNT][region].describe_key(name)
    except Exception:  # moto has an error for each way a name can be wrong
        return None
    return str(key.arn) if key.enabled else None


def describe_snapshots(call: EC2Response) -> ActionResult:
    owners = [ACCOUNT if one == "self" else one for one in call._get_param("OwnerIds", [])]
    result = ElasticBlockStore.describe_snapshots(call)
    result.result["Snapshots"] = [
        one
        for one in result.result["Snapshots"]
        if world().is_seen(one.id, call.region) and (not owners or one.owner_id in owners)
    ]
    return result


RESTORE_KEYS = {
    "snapshot-id": lambda row: row["SnapshotId"],
    "availability-zone": lambda row: row["AvailabilityZone"],
    "state": lambda row: row["State"],
}


def enable_fast_snapshot_restores(call: EC2Response) -> dict[str, Any]:
    """Enabling takes the scenario's time, with `optimizing` in its second half."""
    rows = []
    for snapshot in call._get_param("SourceSnapshotIds", []):
        call.ec2_backend.get_snapshot(snapshot)
        for zone in call._get_param("AvailabilityZones", []):
            world().restores.setdefault((call.region, snapshot, zone), world().offset())
            rows.append(_restore_row(call.region, snapshot, zone))
    return {"Successful": rows, "Unsuccessful": []}


def disable_fast_snapshot_restores(call: EC2Response) -> dict[str, Any]:
    rows = []
    for snapshot in call._get_param("SourceSnapshotIds", []):
        for zone in call._get_param("AvailabilityZones", []):
            if world().restores.pop((call.region, snapshot, zone), None) is not None:
                rows.append({"SnapshotId": snapshot, "AvailabilityZone": zone, "State": "disabling"})
    return {"Successful": rows, "Unsuccessful": []}


def describe_fast_snapshot_restores(call: EC2Response) -> dict[str, Any]:
    rows = [_restore_row(*key) for key in world().restores if key[0] == call.region]
    return {"FastSnapshotRestores": keep(rows, call._get_param("Filters", []), RESTORE_KEYS)}


def _restore_row(region: str, snapshot: str, zone: str) -> dict[str, Any]:
    age, lasts = world().offset() - world().restores[region, snapshot, zone], world().timing(region).fast_restore
    state = "enabled" if age >= lasts else "optimizing" if age >= lasts / 2 else "enabling"
    return {"SnapshotId": snapshot, "AvailabilityZone": zone, "State": state, "OwnerId": ACCOUNT}
