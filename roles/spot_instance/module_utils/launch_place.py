"""What a region has for a launch: subnets by zone, and the image of each type. Changes nothing."""

# What a baked image holds that depends on the type: playbooks/image.yml tags images so.
BAKED = ("architecture", "driver_branch", "mxnet_wheel")


def read_place(ec2, ssm, wanted):
    """{"subnets", "missing_zones", "images"}; wanted: the arguments of the module spot_instance_place.

    ValueError: a subnet or image that was asked for is not what it was taken for.
    """
    zones = _zones(ec2, wanted)
    subnets = default_subnets(ec2) | given_subnets(ec2, wanted, zones)
    types = sorted({offer["instance_type"] for offer in wanted["offers"]})
    return {
        "subnets": {zone: subnets[zone] for zone in zones if zone in subnets},
        "missing_zones": [zone for zone in zones if zone not in subnets],
        "images": {name: read_image(ec2, ssm, wanted, name) for name in types},
    }


def _zones(ec2, wanted):
    """The offers' zones; an offer without one (on demand) can be had in any that has the type."""
    named = {offer["zone"] for offer in wanted["offers"] if offer["zone"]}
    anywhere = sorted({offer["instance_type"] for offer in wanted["offers"] if not offer["zone"]})
    if anywhere:
        filters = [{"Name": "instance-type", "Values": anywhere}]
        pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone", Filters=filters
        )
        named |= {row["Location"] for page in pages for row in page["InstanceTypeOfferings"]}
    return sorted(named)


def default_subnets(ec2):
    """{zone: {"id", "vpc_id"}} of the default network; empty without one."""
    return _by_zone(_subnets(ec2, Filters=[{"Name": "default-for-az", "Values": ["true"]}]))


def given_subnets(ec2, wanted, zones):
    given = {zone: wanted["subnet_ids"][zone] for zone in zones if wanted["subnet_ids"].get(zone)}
    found = {row["SubnetId"]: row for row in _subnets(ec2, SubnetIds=sorted(given.values()))} if given else {}
    for zone, subnet_id in given.items():
        if (is_in := found[subnet_id]["AvailabilityZone"]) != zone:
            raise ValueError(f"spot_instance_subnet_ids[{zone}] must be a subnet in {zone}, got {subnet_id} in {is_in}")
    return _by_zone(found.values())


def _subnets(ec2, **arguments):
    return [row for page in ec2.get_paginator("describe_subnets").paginate(**arguments) for row in page["Subnets"]]


def _by_zone(rows):
    return {row["AvailabilityZone"]: {"id": row["SubnetId"], "vpc_id": row["VpcId"]} for row in rows}


def read_image(ec2, ssm, wanted, instance_type):
    """The image for a type: the one given for the region, else the newest baked one with the wanted tags, else the
    parameter's."""
    region, profile = wanted["region"], wanted["profiles"].get(instance_type)
    if image_id := wanted["image_ids"].get(region):
        return _facts(_image(ec2, image_id), f"spot_instance_image_ids[{region}]", wanted)
    if profile and (baked := _baked(ec2, image_tags(profile, wanted["image_tags"]))):
        return _facts(max(baked, key=lambda row: row["CreationDate"]), "baked by the kit", wanted)
    name = wanted["image_parameter"]
    image_id = ssm.get_parameter(Name=name)["Parameter"]["Value"]
    return _facts(_image(ec2, image_id), f"parameter {name}", wanted)


def image_tags(profile, more):
    """The tags of an image that suits a type: what its profile says, and what is wanted beside."""
    held = {key: profile[key] for key in BAKED if profile.get(key)}
    return {key: str(value) for key, value in ({"kit": "image-trainer"} | held | more).items()}


def _baked(ec2, tags):
    filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
    filters.append({"Name": "state", "Values": ["available"]})
    pages = ec2.get_paginator("describe_images").paginate(Owners=["self"], Filters=filters)
    return [row for page in pages for row in page["Images"]]


def _image(ec2, image_id):
    return ec2.describe_images(ImageIds=[image_id])["Images"][0]


def _facts(row, source, wanted):
    """The root volume is never smaller than what the image holds."""
    root = row["RootDeviceName"]
    holds = [disk["Ebs"]["VolumeSize"] for disk in row["BlockDeviceMappings"] if disk.get("DeviceName") == root]
    size = max([wanted["root_gb"], *holds])
    return {"id": row["ImageId"], "root_device": root, "root_gb": size, "source": source}
