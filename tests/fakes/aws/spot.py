"""Spot requests: those behind launched instances, open ones, persistent ones that launch again."""

from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.spot_requests import SpotInstanceRequest
from moto.ec2.responses import EC2Response
from moto.ec2.responses.spot_instances import SpotInstances
from moto.ec2.utils import random_spot_request_id

from . import instances
from .world import world


class AdoptedRequest(SpotInstanceRequest):
    """The request that AWS makes for a launch that has already happened."""

    def __init__(self, adopted: Any, kind: str, tags: dict[str, str]):
        self.adopted = adopted
        super().__init__(
            ec2_backend=adopted.ec2_backend,
            spot_request_id=random_spot_request_id(),
            price="",
            image_id=adopted.image_id,
            spot_instance_type=kind,
            valid_from=None,
            valid_until=None,
            launch_group=None,
            availability_zone_group=None,
            key_name=adopted.key_name,
            security_groups=[],
            user_data=adopted.user_data,
            instance_type=adopted.instance_type,
            placement=adopted.availability_zone,
            kernel_id=None,
            ramdisk_id=None,
            monitoring_enabled=False,
            subnet_id=adopted.subnet_id,
            tags={"spot-instances-request": tags},
            spot_fleet_id=None,
            instance_interruption_behaviour="terminate",
        )
        self.all_tags = {"instance": {tag["key"]: tag["value"] for tag in adopted.get_tags()}}

    def launch_instance(self) -> Any:
        return self.adopted


def patch_requests() -> None:
    SpotInstanceRequest.create_time = property(lambda self: self.__dict__.setdefault("made", datetime.now(UTC)))
    SpotInstanceRequest.status = property(
        lambda self: {
            "Code": self._status_code, "Message": self.status_message,
            "UpdateTime": self.__dict__.get("updated", self.create_time),
        }  # fmt: skip
    )
    SpotInstanceRequest.instance_id = property(lambda self: self.instance.id if self.instance else None)


def adopt(instance: Any, call: EC2Response) -> None:
    """Makes the request of a spot launch, with the tags that the launch gives it."""
    kind = call._get_param("InstanceMarketOptions.SpotOptions.SpotInstanceType") or "one-time"
    make_request(instance, kind, call._parse_tag_specification().get("spot-instances-request", {}))


def make_request(instance: Any, kind: str, tags: dict[str, str]) -> None:
    request = AdoptedRequest(instance, kind, tags)
    instance.lifecycle = "spot"
    instance.spot_instance_request_id = request.id
    instance.ec2_backend.spot_instance_requests[request.id] = request


def request_spot_instances(call: EC2Response) -> ActionResult:
    """Requests that wait as open for a while, then launch."""
    result = SpotInstances.request_spot_instances(call)
    for request in result.result["SpotInstanceRequests"]:
        instance = request.instance
        instance.lifecycle, instance.spot_instance_request_id = "spot", request.id
        wait = world().timing(call.region).open_request
        if wait:
            _withdraw(request)
            world().later(wait, lambda one=request: _fulfil(one))
        else:
            instances.started(instance, "spot")
    return result


def _withdraw(request: SpotInstanceRequest) -> None:
    """Takes back the instance that moto launched at once."""
    reservations = request.ec2_backend.reservations
    for key in [key for key, one in reservations.items() if request.instance in one.instances]:
        del reservations[key]
    for volume in [device.volume_id for device in request.instance.block_device_mapping.values()]:
        request.ec2_backend.volumes.pop(volume)
    request.instance = None
    request.state, request._status_code = "open", "pending-evaluation"


def _fulfil(request: SpotInstanceRequest) -> None:
    if request.state != "open":
        return
    request.instance = SpotInstanceRequest.launch_instance(request)
    request.instance.lifecycle, request.instance.spot_instance_request_id = "spot", request.id
    request.state, request._status_code = "active", "fulfilled"
    instances.started(request.instance, "spot")


def cancel_spot_instance_requests(call: EC2Response) -> dict[str, Any]:
    """Cancels requests; their instances go on running, as at AWS."""
    call.error_on_dryrun()
    known, ids = call.ec2_backend.spot_instance_requests, call._get_param("SpotInstanceRequestIds", [])
    missing = [one for one in ids if one not in known]
    if missing:
        text = f"The spot instance request ID '{missing[0]}' does not exist"
        raise EC2ClientError("InvalidSpotInstanceRequestID.NotFound", text)
    for one in ids:
        runs = known[one].instance and known[one].state == "active"
        known[one].state = "cancelled"
        known[one]._status_code = "request-canceled-and-instance-running" if runs else "canceled-before-fulfillment"
    return {"CancelledSpotInstanceRequests": [{"SpotInstanceRequestId": one, "State": "cancelled"} for one in ids]}


def is_one_time(instance: Any) -> bool:
    request = _request_of(instance)
    return request is not None and request.type == "one-time"


def _request_of(instance: Any) -> Any:
    return instance.ec2_backend.spot_instance_requests.get(getattr(instance, "spot_instance_request_id", None))


def instance_stopped(instance: Any) -> None:
    """Its persistent request waits until somebody starts it again."""
    if request := _request_of(instance):
        request.state, request._status_code = "disabled", "instance-stopped-by-user"


def instance_ended(instance: Any, code: str, moment: datetime) -> None:
    """Closes the ended instance's request; a persistent one that nobody cancelled is open again and launches."""
    request = _request_of(instance)
    if request is None or request.state != "active":
        return
    cause = "no-capacity" if code.startswith("Server.") else "by-user"
    request._status_code, request.updated = f"instance-terminated-{cause}", moment
    if request.type == "persistent":
        request.state = "open"
        world().later(world().timing(instance.region_name).relaunch, lambda: _fulfil(request))
    else:
        request.state = "closed"
