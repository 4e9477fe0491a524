"""Puts the double's answers into moto, once a process, and makes a world of a scenario."""

import json
import os

os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # only the scenario's; its own cost seconds

from collections.abc import Callable
from typing import Any

from moto import settings
from moto.core.responses import ActionResult
from moto.core.utils import camelcase_to_underscores, get_pagination_model, get_service_model
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import Instance
from moto.ec2.responses import EC2Response
from moto.ec2.utils import filter_dict_attribute_mapping
from moto.moto_api._internal import moto_api_backend
from moto.servicequotas.responses import ServiceQuotasResponse

from . import (
    addresses,
    disks,
    filters,
    images,
    instances,
    launch,
    ledger,
    market,
    network,
    quotas,
    regions,
    snapshots,
    spot,
)
from .seed import seed
from .world import World, world

ANSWERS = [
    regions.describe_regions,
    regions.describe_availability_zones,
    market.describe_spot_price_history,
    market.describe_instance_types,
    market.describe_instance_type_offerings,
    market.get_spot_placement_scores,
    launch.run_instances,
    instances.terminate_instances,
    instances.stop_instances,
    instances.describe_instances,
    instances.get_console_output,
    spot.request_spot_instances,
    spot.cancel_spot_instance_requests,
    disks.create_volume,
    disks.attach_volume,
    disks.detach_volume,
    disks.delete_volume,
    disks.describe_volumes,
    disks.describe_volume_status,
    snapshots.create_snapshot,
    snapshots.copy_snapshot,
    snapshots.describe_snapshots,
    snapshots.enable_fast_snapshot_restores,
    snapshots.disable_fast_snapshot_restores,
    snapshots.describe_fast_snapshot_restores,
    network.create_subnet,
    network.delete_subnet,
    network.delete_security_group,
    network.detach_internet_gateway,
    network.delete_vpc,
    images.create_image,
    images.copy_image,
]
NOT_FOUND = {
    "i": "InvalidInstanceID.NotFound",
    "vol": "InvalidVolume.NotFound",
    "snap": "InvalidSnapshot.NotFound",
}
PAGE_SIZE = 1000


def install(new_world: World) -> None:
    """Makes moto's state that of the scenario; whatever was there is gone."""
    if not hasattr(EC2Response, "of_the_double"):
        _patch()
    moto_api_backend.reset()
    scenario = new_world.scenario
    regions.set_regions(scenario)
    market.set_instance_types(scenario)
    addresses.set_addresses(scenario.addresses)
    seed(scenario)


def _patch() -> None:
    EC2Response.of_the_double = True
    settings.ENABLE_AMI_VALIDATION = True
    Instance.client_token = ""
    filter_dict_attribute_mapping["client-token"] = "client_token"
    addresses.patch_addresses()
    disks.patch_volumes()
    snapshots.patch_snapshots()
    images.patch_images()
    spot.patch_requests()
    ledger.patch_deletions()
    for answer in ANSWERS:
        setattr(EC2Response, answer.__name__, _as_method(answer))
    for name, method in quotas.METHODS.items():
        setattr(ServiceQuotasResponse, name, method)
    for action, model in get_pagination_model("ec2").items():
        _page(camelcase_to_underscores(action), action, model["result_key"])
    model = get_service_model("ec2")
    for action in model.operation_names:
        name = camelcase_to_underscores(action)
        shape = model.operation_model(action).input_shape if hasattr(EC2Response, name) else None
        if shape and "ClientToken" in shape.members:
            _heed_tokens(name, action)
    _hide_new_things()


def _as_method(answer: Callable[[Any], Any]) -> Callable[[Any], ActionResult]:
    def method(self: EC2Response) -> ActionResult:
        result = answer(self)
        return ActionResult(result) if isinstance(result, dict) else result

    return method


def _page(name: str, action: str, keys: Any) -> None:
    """Makes an EC2 method that lists things page its list, as AWS would or in smaller pages by the scenario."""
    method, key = getattr(EC2Response, name, None), keys if isinstance(keys, str) else keys[0]
    if method is None:
        return

    def paged(self: EC2Response) -> ActionResult:
        token = self.params.pop("NextToken", None)
        result = method(self)
        if not isinstance(result, ActionResult) or not isinstance(result.result, dict):
            return result
        scenario = world().scenario
        size = min(int(self._get_param("MaxResults") or PAGE_SIZE), scenario.page_sizes.get(action, PAGE_SIZE))
        rows, after = filters.page(list(result.result.get(key, [])), token, size, scenario.empty_pages)
        return ActionResult({**result.result, key: rows, "NextToken": after})

    setattr(EC2Response, name, paged)


def _heed_tokens(name: str, action: str) -> None:
    """Makes a call with a client token that was used before the same call: it is answered, not done, again."""
    method = getattr(EC2Response, name)

    def done_once(self: EC2Response) -> Any:
        key = (self.region, action, self._get_param("ClientToken", ""))
        parameters = json.dumps(self.params, sort_keys=True, default=str)
        then, answer = world().tokens.get(key, (parameters, None))
        if then != parameters:
            text = "Arguments on this idempotent request are inconsistent with arguments used in previous request(s)."
            raise EC2ClientError("IdempotentParameterMismatch", text)
        if answer is not None and action == "RunInstances":
            launch.check_not_over(answer)
        if answer is None:
            answer = method(self)
            if key[2]:
                world().tokens[key] = (parameters, answer)
        return answer

    setattr(EC2Response, name, done_once)


def _hide_new_things() -> None:
    """New ids are unknown, and new tags unseen, for as long as the scenario says."""
    tags, call_action = TaggedEC2Resource.get_tags, EC2Response.call_action

    def get_tags(self: Any) -> list[dict[str, str]]:
        seen = not self.id or world().tags_are_seen(self.id, self.ec2_backend.region_name)
        return tags(self) if seen else []

    def call_action_of_seen(self: EC2Response) -> Any:
        try:
            _check_ids(self)
        except EC2ClientError as error:
            return self.serialized(ActionResult(error))
        return call_action(self)

    TaggedEC2Resource.get_tags = get_tags
    EC2Response.call_action = call_action_of_seen


def _check_ids(call: EC2Response) -> None:
    names = ("InstanceId", "InstanceIds", "VolumeId", "VolumeIds", "SnapshotId", "SnapshotIds", "Resources")
    for name in names:
        ids = call.params.get(name, [])
        for one in [ids] if isinstance(ids, str) else ids:
            if not world().is_seen(one, call.region):
                code = NOT_FOUND.get(one.split("-")[0], "InvalidID")
                raise EC2ClientError(code, f"The ID '{one}' does not exist")
