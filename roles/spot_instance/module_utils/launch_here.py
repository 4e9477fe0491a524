"""The launch in one region as the module spot_instance_launch asks for it. One at a time in a run's directory."""

import fcntl

import boto3
from ansible.module_utils.launch_journal import read_journal
from ansible.module_utils.launch_request import user_data
from ansible.module_utils.launch_walk import LAUNCH_CONFIG, Launch, settle, walk
from ansible.module_utils.spot_survey import CONFIG


def launch_here(params):
    """(the running instance's facts or {}, what was tried); see walk() for errors."""
    with open(params["journal_path"] + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _settle_and_walk(params)


def _settle_and_walk(params):
    journal = read_journal(params["journal_path"])
    if journal.get("region") and (facts := settle(_launch_in(journal["region"], params), journal)):
        return facts, []
    if not params["offers"]:
        return {}, []
    offers = [row for offer in params["offers"] for row in in_zones(offer, params["place"]["subnets"])]
    journal = read_journal(params["journal_path"])
    return walk(_launch_in(params["region"], params), journal, offers, lambda offer: _place_of(offer, params), params)


def _launch_in(region, params):
    clients = [boto3.client("ec2", region_name=region, config=config) for config in (CONFIG, LAUNCH_CONFIG)]
    common = {name: params[name] for name in ("run", "journal_path", "deadline", "shown_seconds")}
    return Launch(*clients, region, user_data=_data_of(params), **common)


def _data_of(params):
    path = params["host_key"]
    with open(path, encoding="utf-8") as private, open(path + ".pub", encoding="utf-8") as public:
        return user_data(private.read(), public.read(), params["unconfigured_minutes"])


def in_zones(offer, subnets):
    """The offer in its zone; one without a zone (on demand), in each that it can be had in."""
    return [offer | {"zone": zone} for zone in ([offer["zone"]] if offer["zone"] else sorted(subnets))]


def _place_of(offer, params):
    image, subnet = params["place"]["images"][offer["instance_type"]], params["place"]["subnets"][offer["zone"]]
    return {
        "image_id": image["id"], "root_device": image["root_device"], "root_gb": image["root_gb"],
        "subnet_id": subnet["id"], "security_group_id": params["place"]["security_groups"][subnet["vpc_id"]],
        "key_name": params["key_name"],
    }  # fmt: skip
