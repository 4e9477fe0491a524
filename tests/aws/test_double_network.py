"""Networks of the double: what hangs on what, as at AWS."""

import json

from double_market import BASE, double, launch

from tests.fakes.aws.clients import client, code_of


def make_network(ec2):
    vpc = ec2.create_vpc(CidrBlock="192.0.2.0/24")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="192.0.2.0/26", AvailabilityZone="us-east-1a")["Subnet"]["SubnetId"]
    ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    group = ec2.create_security_group(GroupName="kit", Description="kit", VpcId=vpc)["GroupId"]
    return vpc, subnet, gateway, group


def deletions(ec2, vpc, subnet, gateway, group):
    return [
        code_of(ec2.delete_security_group, GroupId=group),
        code_of(ec2.detach_internet_gateway, InternetGatewayId=gateway, VpcId=vpc),
        code_of(ec2.delete_internet_gateway, InternetGatewayId=gateway),
        code_of(ec2.delete_subnet, SubnetId=subnet),
        code_of(ec2.delete_vpc, VpcId=vpc),
    ]


def test_a_network_goes_only_after_its_last_instance():
    with double() as endpoint:
        ec2 = client(endpoint)
        network = make_network(ec2)
        made = launch(ec2, SubnetId=network[1], SecurityGroupIds=[network[3]])
        assert made["PublicIpAddress"].startswith("203.0.113.")
        assert deletions(ec2, *network) == ["DependencyViolation"] * 5
        ec2.terminate_instances(InstanceIds=[made["InstanceId"]])
        ec2.describe_instances()
        assert deletions(ec2, *network) == [""] * 5


def test_a_network_with_a_gateway_or_a_group_stays():
    with double() as endpoint:
        ec2 = client(endpoint)
        vpc, subnet, gateway, group = make_network(ec2)
        ec2.delete_subnet(SubnetId=subnet)
        ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        assert code_of(ec2.delete_vpc, VpcId=vpc) == "DependencyViolation"
        ec2.delete_security_group(GroupId=group)
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        assert code_of(ec2.delete_vpc, VpcId=vpc) == "DependencyViolation"
        ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        assert code_of(ec2.delete_vpc, VpcId=vpc) == ""


def test_a_subnet_that_somebody_makes_is_no_default_and_gives_no_addresses():
    with double() as endpoint:
        ec2 = client(endpoint)
        vpc = ec2.create_vpc(CidrBlock="192.0.2.0/24")["Vpc"]["VpcId"]
        made = ec2.create_subnet(VpcId=vpc, CidrBlock="192.0.2.0/26", AvailabilityZone="us-east-1a")["Subnet"]
        [subnet] = ec2.describe_subnets(SubnetIds=[made["SubnetId"]])["Subnets"]
        assert (subnet["DefaultForAz"], subnet["MapPublicIpOnLaunch"]) == (False, False)
        default = ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
        assert made["SubnetId"] not in [row["SubnetId"] for row in default]


def test_a_default_group_cannot_be_deleted():
    with double() as endpoint:
        ec2 = client(endpoint)
        [default] = ec2.describe_security_groups(GroupNames=["default"])["SecurityGroups"]
        assert code_of(ec2.delete_security_group, GroupId=default["GroupId"]) == "CannotDelete"


def test_a_region_without_a_default_network():
    with double(regions={"us-east-1": {"default_vpc": False}}) as endpoint:
        ec2 = client(endpoint)
        assert ec2.describe_vpcs()["Vpcs"] == [] and ec2.describe_subnets()["Subnets"] == []
        assert code_of(launch, ec2) == "VPCIdNotSpecified"
        assert code_of(launch, ec2, SubnetId=make_network(ec2)[1]) == ""


def test_a_new_instance_profile_is_known_late():
    trust = {"Version": "2012-10-17", "Statement": []}
    for wait, code in ((0, ""), ("forever", "InvalidParameterValue")):
        with double(timing=[{"profiles": wait}], images=BASE["images"]) as endpoint:
            iam = client(endpoint, "iam")
            iam.create_role(RoleName="kit", AssumeRolePolicyDocument=json.dumps(trust))
            iam.create_instance_profile(InstanceProfileName="kit")
            iam.add_role_to_instance_profile(InstanceProfileName="kit", RoleName="kit")
            assert code_of(launch, client(endpoint), IamInstanceProfile={"Name": "kit"}) == code
