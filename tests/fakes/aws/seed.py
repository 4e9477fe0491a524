"""What stands there when the double starts: snapshots, images, keys, volumes, instances."""

from datetime import UTC, datetime

from moto.ec2.models.elastic_block_store import Snapshot, Volume
from moto.kms.models import kms_backends
from moto.ssm.models import Parameter, ssm_backends

from . import images, instances, ledger, spot
from .instances import ACCOUNT, backend
from .scenario import Image, Instance, Key, Scenario
from .scenario import Snapshot as SnapshotTable
from .scenario import Volume as VolumeTable
from .world import world

DEBIAN = "136693071363"  # the account that publishes Debian's images


def seed(scenario: Scenario) -> None:
    for name, region in scenario.regions.items():
        if not region.default_vpc:
            _remove_default_vpc(name)
    for key in scenario.keys:
        _add_key(key)
    for row in scenario.snapshots:
        _add_snapshot(row)
    for image in scenario.images:
        _add_image(image)
    for volume in scenario.volumes:
        _add_volume(volume)
    for instance in scenario.instances:
        _add_instance(instance)


def _remove_default_vpc(region: str) -> None:
    ec2 = backend(region)
    vpc = ec2.get_default_vpc()
    for subnets in ec2.subnets.values():
        for subnet in [one for one in subnets.values() if one.vpc_id == vpc.id]:
            del subnets[subnet.id]
    del ec2.vpcs[vpc.id]


def _add_key(row: Key) -> None:
    kms = kms_backends[ACCOUNT][row.region]
    key = kms.create_key("", "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", row.name, None)
    key.enabled = row.enabled
    kms.create_alias(key.id, f"alias/{row.name}")


def _moment(offset: float) -> datetime:
    return datetime.fromtimestamp(world().started + offset, UTC)


def _add_snapshot(row: SnapshotTable) -> None:
    ec2 = backend(row.region)
    volume = Volume(ec2, "vol-ffffffff", row.size_gib, None, encrypted=row.encrypted)
    key = None
    if row.encrypted:
        kms = kms_backends[ACCOUNT][row.region]
        key = kms.describe_key(f"alias/{row.kms_key}").arn if row.kms_key else ec2._create_default_encryption_key()
    snapshot = Snapshot(ec2, row.id, volume, "", row.encrypted, key)
    snapshot.status, snapshot.start_time, snapshot.lasts = row.state, _moment(row.started), 1e9
    snapshot.add_tags(row.tags)
    ec2.snapshots[row.id] = snapshot


def _add_image(row: Image) -> None:
    owner = DEBIAN if row.public else ACCOUNT
    made = {"creation_date": _moment(row.created), "owner_id": owner, "public": row.public, "size_gib": row.size_gib}
    image = images.make_image(row.region, row.id, row.name, architecture=row.architecture, **made)
    image.add_tags(row.tags)
    if row.ssm_parameter:
        parameters = ssm_backends[ACCOUNT][row.region]._parameters
        parameters[row.ssm_parameter].append(_parameter(row))


def _parameter(row: Image) -> Parameter:
    return Parameter(
        account_id=ACCOUNT,
        name=row.ssm_parameter,
        value=row.id,
        parameter_type="String",
        description=None,
        allowed_pattern=None,
        keyid=None,
        last_modified_date=_moment(row.created),
        version=1,
        data_type="aws:ec2:image",
    )


def _add_volume(row: VolumeTable) -> None:
    backend(row.region).create_volume(row.size_gib, row.zone).add_tags(row.tags)


def _add_instance(row: Instance) -> None:
    ec2 = backend(row.region)
    image = next(iter(ec2.amis), None) or images.make_image(row.region, "ami-00000000000000000", "older").id
    reservation = ec2.run_instances(
        image,
        1,
        None,
        [],
        instance_type=row.instance_type,
        is_instance_type_default=False,
        placement=row.zone,
        region_name=row.region,
        tags={"instance": row.tags},
    )
    instance = reservation.instances[0]
    instance.market, instance.launch_time = row.market, _moment(row.launched)
    ledger.open_row("instance", instance, row.region, **{"from": row.launched})
    if row.market == "spot":
        spot.make_request(instance, row.request or "one-time", row.request_tags)
    if row.state == "stopped":
        instance.stop()
        ledger.close(instance)
    if row.ended is not None:
        instances.end(instance, *(instances.TAKEN_BACK if row.taken_back else instances.BY_USER), at=row.ended)
