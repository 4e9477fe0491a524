"""What a run has on AWS beside instances: key pairs, security groups, networks. They cost nothing. Changes nothing."""

from functools import partial

from ansible.module_utils.run_look import in_every_region, tag_filter

# (paginated call, its list, the id of a row)
KINDS = {
    "security_groups": ("describe_security_groups", "SecurityGroups", "GroupId"),
    "subnets": ("describe_subnets", "Subnets", "SubnetId"),
    "gateways": ("describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    "route_tables": ("describe_route_tables", "RouteTables", "RouteTableId"),
    "networks": ("describe_vpcs", "Vpcs", "VpcId"),
}


def look_for_things(run, timeout_seconds=60):
    """{"key_pairs": [{"region", "name"}], and for each of KINDS [{"region", "id", "vpc_id", "cidr"}]}.

    OSError: a region does not answer.
    """
    found = in_every_region(partial(_read_region, run=run), set(), timeout_seconds)["regions"].values()
    return {kind: [row for region in found for row in region[kind]] for kind in ("key_pairs", *KINDS)}


def _read_region(client, region, run):
    ec2, filters = client("ec2", region), tag_filter(run)
    keys = ec2.describe_key_pairs(Filters=filters)["KeyPairs"]
    found = {"key_pairs": [{"region": region, "name": row["KeyName"]} for row in keys]}
    for kind, (call, listed, id_name) in KINDS.items():
        rows = [row for page in ec2.get_paginator(call).paginate(Filters=filters) for row in page[listed]]
        found[kind] = [_thing(region, row, id_name) for row in rows]
    return found


def _thing(region, row, id_name):
    attached = [one["VpcId"] for one in row.get("Attachments", [])]
    vpc_id = row.get("VpcId") or next(iter(attached), "")
    return {"region": region, "id": row[id_name], "vpc_id": vpc_id, "cidr": row.get("CidrBlock", "")}
