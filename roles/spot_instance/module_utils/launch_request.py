"""The parameters of a launch, and the token that makes the same launch happen once. Pure."""

import hashlib
import json


def launch_parameters(offer, place, wanted):
    """What run_instances takes for an offer, without its token and user data.

    place: {"image_id", "root_device", "root_gb", "subnet_id", "security_group_id", "key_name"}; wanted: {"tags",
    "instance_profile", "max_price_usd" (None: up to the on-demand price)}.
    """
    kinds = ["instance", "volume", "network-interface"]
    parameters = {
        "ImageId": place["image_id"],
        "InstanceType": offer["instance_type"],
        "MinCount": 1,
        "MaxCount": 1,
        "KeyName": place["key_name"],
        "SubnetId": place["subnet_id"],
        "SecurityGroupIds": [place["security_group_id"]],
        # The bill stops with the machine, whoever switches it off.
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [{"DeviceName": place["root_device"], "Ebs": {
            "VolumeSize": place["root_gb"], "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True,
        }}],
    }  # fmt: skip
    if wanted["instance_profile"]:
        parameters["IamInstanceProfile"] = {"Name": wanted["instance_profile"]}
    if offer["market"] == "spot":
        kinds.append("spot-instances-request")
        parameters["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": _spot_options(wanted)}
    parameters["TagSpecifications"] = [{"ResourceType": kind, "Tags": _tags(wanted["tags"])} for kind in kinds]
    return parameters


def _spot_options(wanted):
    options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    if wanted["max_price_usd"] is not None:
        options["MaxPrice"] = f"{wanted['max_price_usd']:.6f}"
    return options


def _tags(tags):
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def launch_token(run, attempt, parameters):
    """64 characters that are the same for the same attempt with the same parameters, and no other."""
    text = json.dumps([run, attempt, parameters], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


UNCONFIGURED = "unconfigured-power-off"
UNCONFIGURED_SERVICE = """[Unit]
Description=Power this host off, as nobody has configured it

[Service]
Type=oneshot
ExecStart=/usr/bin/systemctl poweroff
"""
UNCONFIGURED_TIMER = """[Unit]
Description=Wait {minutes} minutes for whoever configures this host

[Timer]
OnActiveSec={minutes}min

[Install]
WantedBy=timers.target
"""


def user_data(host_key, host_public_key, unconfigured_minutes):
    """What cloud-init makes of the host: its only ssh key, and a timer that powers it off unless somebody stops that.

    The key is known before the first connection so. It is the private key: who may read an instance's user data (its
    root, by its metadata service any of its processes, and the account's administrators) could pretend to be the host.
    """
    units = {"service": UNCONFIGURED_SERVICE, "timer": UNCONFIGURED_TIMER.format(minutes=unconfigured_minutes)}
    config = {
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": host_key, "ed25519_public": host_public_key.strip()},
        "write_files": [
            {"path": f"/etc/systemd/system/{UNCONFIGURED}.{kind}", "content": text} for kind, text in units.items()
        ],
        "runcmd": [["systemctl", "enable", "--now", f"{UNCONFIGURED}.timer"]],
    }
    return "#cloud-config\n" + json.dumps(config, indent=1) + "\n"
