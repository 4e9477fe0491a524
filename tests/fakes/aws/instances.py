"""Instances from launch to end: states that take time, what they cost, their console."""

import base64
from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.responses import EC2Response

from . import ledger, spot
from .call import Call
from .world import world

ACCOUNT = "123456789012"
ALIVE = ("pending", "running")
BY_USER = ("Client.UserInitiatedShutdown", "User initiated shutdown")
TAKEN_BACK = (ledger.TAKEN_BACK, "Spot instance termination")


def backend(region: str) -> Any:
    return ec2_backends[ACCOUNT][region]


def all_instances(region: str) -> list[Any]:
    return list(backend(region).all_instances())


def find(instance_id: str) -> Any:
    """The instance, in whatever region it is. Raises ValueError when there is none."""
    for region in world().scenario.region_names():
        for one in all_instances(region):
            if one.id == instance_id:
                return one
    raise ValueError(f"there is no instance {instance_id}")


def zone_of(call: Call) -> str:
    """The zone that a call's parameters name, themselves or through a subnet; "" without one."""
    if zone := call.parameters.get("Placement.AvailabilityZone") or call.parameters.get("AvailabilityZone"):
        return str(zone)
    subnet_id = call.parameters.get("SubnetId") or call.parameters.get("NetworkInterface.1.SubnetId")
    if not subnet_id or call.service != "ec2":
        return ""
    zones = backend(call.region).subnets.values()
    return next((zone[subnet_id].availability_zone for zone in zones if subnet_id in zone), "")


def started(instance: Any, kind: str) -> None:
    """A new instance: pending for a while, and its ids and tags seen late, as the scenario says."""
    instance.market = kind
    world().born(instance.id)
    region = instance.region_name
    ledger.open_row("instance", instance, region)
    for card in instance.nics.values():
        card.delete_on_termination = True
        _get_address_later(card, world().timing(region).addresses)
    set_state(instance, "pending", 0)
    for device in instance.block_device_mapping.values():
        world().born(device.volume_id)
        ledger.open_row("volume", instance.ec2_backend.volumes[device.volume_id], region)
    world().later(world().timing(region).pending, lambda: _if_state(instance, "pending", "running", 16))


def _get_address_later(card: Any, seconds: float) -> None:
    if seconds and card.public_ip:
        address, card.public_ip = card.public_ip, None
        world().later(seconds, lambda: setattr(card, "public_ip", address))


def set_state(instance: Any, name: str, code: int) -> None:
    instance._state.name, instance._state.code = name, code


def _if_state(instance: Any, old: str, name: str, code: int) -> None:
    if instance.state == old:
        set_state(instance, name, code)


def terminate_instances(call: EC2Response) -> ActionResult:
    call.error_on_dryrun()
    rows = []
    for instance in call.ec2_backend.get_multi_instances_by_id(call._get_param("InstanceIds", [])):
        if instance.disable_api_termination in (True, "true"):
            raise EC2ClientError("OperationNotPermitted", f"The instance '{instance.id}' may not be terminated.")
        row = {"InstanceId": instance.id, "PreviousState": _state(instance)}
        end(instance, *BY_USER)
        rows.append(row | {"CurrentState": _state(instance)})
    return ActionResult({"TerminatingInstances": rows})


def _state(instance: Any) -> dict[str, Any]:
    return {"Name": instance.state, "Code": instance.state_code}


def end(instance: Any, code: str, message: str, at: float | None = None) -> None:
    """Shuts an instance down for good; its spot request is closed, or launches again if it is a persistent one.

    at: when, in seconds since the start; left out, now.
    """
    if instance.state in ("shutting-down", "terminated"):
        return
    set_state(instance, "shutting-down", 32)
    at = world().offset() if at is None else at
    _tell_end(instance, code, message, at)
    ledger.close(instance, at)
    world().later(world().timing(instance.region_name).shutting_down, lambda: _terminated(instance, code, message, at))
    spot.instance_ended(instance, code, datetime.fromtimestamp(world().started + at, UTC))


def _terminated(instance: Any, code: str, message: str, at: float) -> None:
    instance.terminate()
    _tell_end(instance, code, message, at)


def _tell_end(instance: Any, code: str, message: str, at: float) -> None:
    who = "Service" if code == ledger.TAKEN_BACK else "User"
    moment = datetime.fromtimestamp(world().started + at, UTC)
    instance.state_reason.code, instance.state_reason.message = code, f"{code}: {message}"
    instance._reason = f"{who} initiated ({moment:%Y-%m-%d %H:%M:%S} GMT)"


def stop_instances(call: EC2Response) -> ActionResult:
    call.error_on_dryrun()
    rows = []
    for instance in call.ec2_backend.get_multi_instances_by_id(call._get_param("InstanceIds", [])):
        if spot.is_one_time(instance):
            text = f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time request."
            raise EC2ClientError("UnsupportedOperation", text)
        row = {"InstanceId": instance.id, "PreviousState": _state(instance)}
        instance.stop()
        spot.instance_stopped(instance)
        set_state(instance, "stopping", 64)
        ledger.close(instance)
        wait = world().timing(instance.region_name).stopping
        world().later(wait, lambda one=instance: _if_state(one, "stopping", "stopped", 80))
        rows.append(row | {"CurrentState": _state(instance)})
    return ActionResult({"StoppingInstances": rows})


def vanish(call: Call) -> None:
    """Ends, as an interruption does, the instances that a call names."""
    ids = {value for key, value in call.parameters.items() if key.startswith("InstanceId")}
    for instance in all_instances(call.region):
        if instance.id in ids:
            end(instance, *TAKEN_BACK)


def describe_instances(call: EC2Response) -> ActionResult:
    call.error_on_dryrun()
    ids, filters = call._get_param("InstanceIds", []), call._filters_from_querystring()
    if ids and call._get_param("MaxResults"):
        text = "The parameter instancesSet cannot be used with the parameter maxResults"
        raise EC2ClientError("InvalidParameterCombination", text)
    find = call.ec2_backend
    rows = find.get_reservations_by_instance_ids(ids, filters) if ids else find.describe_instances(filters)
    for row in rows:
        row.instances = [one for one in row.instances if world().is_seen(one.id, call.region)]
    return ActionResult({"Reservations": [row for row in rows if row.instances]})


def get_console_output(call: EC2Response) -> dict[str, Any]:
    instance = call.ec2_backend.get_instance(call._get_param("InstanceId"))
    text = world().consoles.get(instance.id, world().scenario.console) if instance.state != "pending" else ""
    output = base64.b64encode(text.encode()).decode()
    return {"InstanceId": instance.id, "Output": output, "Timestamp": instance.launch_time}
