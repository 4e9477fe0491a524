"""What the documents of docs/iam allow in the double, and what they do not: with resources and conditions."""

import json

import boto3
import pytest
from double_market import BASE
from permissions import NAMES, document

from tests.fakes.aws.clients import client, code_of
from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running

KIT, OTHER = {"kit": "image-trainer", "run": "r1"}, {"team": "physics"}
DENIED = "UnauthorizedOperation"


def tags(own):
    return [{"Key": key, "Value": value} for key, value in own.items()]


def tagged(kind, own):
    return [{"ResourceType": kind, "Tags": tags(own)}]


@pytest.fixture(scope="module")
def endpoint():
    """A double with a key for each document, and one that has none at all."""
    policies = {name: [document(name)] for name in NAMES} | {"nobody": []}
    with running(Scenario.model_validate(BASE | {"policies": policies})) as url:
        yield url


@pytest.fixture
def holder(endpoint):
    """`holder("launch")`: a client of EC2, or another service, with that document alone."""
    return lambda name, service="ec2": boto3.client(
        service, region_name="us-east-1", endpoint_url=endpoint, aws_access_key_id=name, aws_secret_access_key="x"
    )


def instance(endpoint, own):
    made = client(endpoint).run_instances(
        ImageId="ami-1", InstanceType="t3.micro", MinCount=1, MaxCount=1, TagSpecifications=tagged("instance", own)
    )["Instances"][0]["InstanceId"]
    client(endpoint).describe_instances()
    return made


def volume(endpoint, own):
    made = client(endpoint).create_volume(
        AvailabilityZone="us-east-1a", Size=1, TagSpecifications=tagged("volume", own)
    )["VolumeId"]
    client(endpoint).describe_volumes()
    return made


def group(endpoint, own, name):
    made = client(endpoint).create_security_group(
        GroupName=name, Description="d", TagSpecifications=tagged("security-group", own)
    )
    return made["GroupId"]


def test_who_has_no_document_may_do_nothing(holder):
    assert code_of(holder("nobody").describe_instances) == DENIED
    assert code_of(holder("nobody", "sts").get_caller_identity) == "AccessDenied"


def test_only_the_kit_s_instances_end(endpoint, holder):
    ours, theirs = instance(endpoint, KIT), instance(endpoint, OTHER)
    ec2 = holder("launch")
    assert code_of(ec2.terminate_instances, InstanceIds=[theirs]) == DENIED
    assert code_of(ec2.terminate_instances, InstanceIds=[ours, theirs]) == DENIED
    assert code_of(ec2.terminate_instances, InstanceIds=[ours]) == ""
    assert code_of(holder("volume").terminate_instances, InstanceIds=[ours]) == DENIED


def test_tags_are_put_on_what_is_being_made_and_on_nothing_of_somebody_else(endpoint, holder):
    theirs, ec2 = instance(endpoint, OTHER), holder("launch")
    assert code_of(ec2.create_tags, Resources=[theirs], Tags=tags(KIT)) == DENIED
    gateway = client(endpoint).create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    assert code_of(ec2.create_tags, Resources=[gateway], Tags=tags(OTHER)) == DENIED
    assert code_of(ec2.create_tags, Resources=[gateway, theirs], Tags=tags(KIT)) == DENIED
    assert code_of(ec2.create_tags, Resources=[gateway], Tags=tags(KIT)) == ""
    assert code_of(ec2.create_tags, Resources=[gateway], Tags=tags(KIT | {"run": "r2"})) == DENIED, "it has its tags"


@pytest.mark.parametrize(
    ("machine", "disk", "code"), [(KIT, KIT, ""), (OTHER, KIT, DENIED), (KIT, OTHER, DENIED), (None, None, DENIED)]
)
def test_what_is_launched_carries_the_kit_s_tag(endpoint, holder, machine, disk, code):
    wanted = {"ImageId": "ami-1", "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1}
    if machine:
        wanted["TagSpecifications"] = tagged("instance", machine) + tagged("volume", disk)
    assert code_of(holder("launch").run_instances, **wanted) == code


@pytest.mark.parametrize(("own", "code"), [(KIT, ""), (OTHER, DENIED)])
def test_what_is_tagged_as_it_is_made_carries_the_kit_s_tag(holder, own, code):
    wanted = {"AvailabilityZone": "us-east-1a", "Size": 1, "TagSpecifications": tagged("volume", own)}
    assert code_of(holder("volume").create_volume, **wanted) == code


def test_a_firewall_of_somebody_else_is_not_opened(endpoint, holder):
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "192.0.2.7/32"}
    for own, code in ((KIT, ""), (OTHER, DENIED)):
        made = group(endpoint, own, f"g-{len(own)}{code}")
        assert code_of(holder("launch").authorize_security_group_ingress, GroupId=made, **rule) == code


def test_volumes_are_attached_and_deleted_only_between_what_is_the_kit_s(endpoint, holder):
    ec2, ours, theirs = holder("volume"), volume(endpoint, KIT), volume(endpoint, OTHER)
    machine, stranger = instance(endpoint, KIT), instance(endpoint, OTHER)
    for one, host in ((theirs, machine), (ours, stranger)):
        assert code_of(ec2.attach_volume, VolumeId=one, InstanceId=host, Device="/dev/sdf") == DENIED
    assert code_of(ec2.delete_volume, VolumeId=theirs) == DENIED
    assert code_of(ec2.delete_volume, VolumeId=ours) == ""


def test_an_image_is_made_of_the_kit_s_instances_only(endpoint, holder):
    theirs = instance(endpoint, OTHER)
    assert code_of(holder("image").create_image, InstanceId=theirs, Name="theirs", NoReboot=True) == DENIED
    assert code_of(holder("image").create_tags, Resources=["ami-1"], Tags=tags(KIT)) == DENIED
    ours = instance(endpoint, KIT)
    made = {"InstanceId": ours, "Name": "ours", "TagSpecifications": tagged("image", KIT)}
    assert code_of(holder("image").create_image, NoReboot=True, **made) == ""


def test_roles_and_buckets_of_other_names_are_out_of_reach(holder):
    iam, s3 = holder("mirror", "iam"), holder("mirror", "s3")
    trust = {"AssumeRolePolicyDocument": json.dumps({"Version": "2012-10-17", "Statement": []})}
    assert code_of(iam.create_role, RoleName="admin", **trust) == "AccessDenied"
    assert code_of(iam.create_role, RoleName="trainer-r1", **trust) == ""
    assert code_of(iam.create_instance_profile, InstanceProfileName="trainer-r1") == ""
    admin = {"InstanceProfileName": "trainer-r1", "RoleName": "admin"}
    assert code_of(iam.add_role_to_instance_profile, **admin) == "AccessDenied", "iam:PassRole"
    assert code_of(s3.create_bucket, Bucket="payroll") == "AccessDenied"
    assert code_of(s3.create_bucket, Bucket="trainer-1-us-east-1") == ""
    assert code_of(s3.put_object, Bucket="trainer-1-us-east-1", Key="ledger", Body=b"") == "AccessDenied"
    keys = {"Objects": [{"Key": "runs/r1/a"}, {"Key": "ledger"}]}
    assert code_of(s3.delete_objects, Bucket="trainer-1-us-east-1", Delete=keys) == "AccessDenied"
    keys["Objects"].pop()
    assert code_of(s3.delete_objects, Bucket="trainer-1-us-east-1", Delete=keys) == ""


@pytest.mark.parametrize("name", ["bill", "plan", "region"])
def test_who_only_looks_changes_nothing(endpoint, holder, name):
    ours = instance(endpoint, KIT)
    assert code_of(holder(name).terminate_instances, InstanceIds=[ours]) == DENIED
    assert code_of(holder(name).create_tags, Resources=[ours], Tags=tags(KIT)) == DENIED
    assert code_of(holder(name).describe_subnets) == ("" if name != "plan" else DENIED)
