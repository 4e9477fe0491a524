"""The market of the double: regions, prices, offers, scores, quotas, the price list, snapshots."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.aws.clients import client, code_of
from tests.fakes.aws.filters import page
from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running

SCENARIO = Scenario.model_validate(
    {
        "regions": {
            "us-east-1": {"zones": {"us-east-1a": "use1-az6"}, "local_zones": {"us-east-1-bos-1a": "use1-bos1-az1"}},
            "us-west-2": {"opt_in": "opted-in"},
            "ap-east-1": {"opt_in": "not-opted-in"},
        },
        "offers": [
            {
                "region": "us-east-1",
                "instance_types": ["p2.16xlarge"],
                "on_demand_usd_per_hour": 14.4,
                "spot_usd_per_hour": [["-9d", 9.0], ["-3d", 4.32], ["-1h", 1.584], ["+1h", 99.0]],
                "descriptions": ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
                "score": 3,
            },
            {"region": "us-west-2", "zones": ["us-west-2a"], "instance_types": ["g4dn.xlarge"], "score": 9},
        ],
        "quotas": [{"region": "us-*", "market": "spot", "family": "p", "vcpus": 0}],
        "snapshots": [
            {"id": "snap-1", "region": "us-east-1", "size_gib": 150, "tags": {"dataset": "imagenet"}},
            {"id": "snap-2", "region": "us-east-1", "size_gib": 9, "encrypted": True, "kms_key": "mine"},
        ],
        "keys": [{"name": "mine", "region": "us-east-1"}],
        "page_sizes": {"DescribeSpotPriceHistory": 2, "GetProducts": 1, "ListServiceQuotas": 3},
        "empty_pages": True,
    }
)


@pytest.fixture(scope="module")
def endpoint():
    with running(SCENARIO) as url:
        yield url


@pytest.fixture
def ec2(endpoint):
    return client(endpoint)


def prices(ec2, **options):
    pages = ec2.get_paginator("describe_spot_price_history").paginate(**options)
    return [row for page in pages for row in page["SpotPriceHistory"]]


@pytest.mark.parametrize(
    ("options", "regions"),
    [
        ({}, {"us-east-1", "us-west-2"}),
        ({"AllRegions": True}, {"us-east-1", "us-west-2", "ap-east-1"}),
        ({"Filters": [{"Name": "opt-in-status", "Values": ["opted-in"]}]}, {"us-west-2"}),
        ({"RegionNames": ["us-east-1"]}, {"us-east-1"}),
    ],
)
def test_regions(ec2, options, regions):
    assert {row["RegionName"] for row in ec2.describe_regions(**options)["Regions"]} == regions


def test_region_not_opted_in_refuses_every_call(endpoint):
    assert code_of(client(endpoint, region="ap-east-1").describe_spot_price_history) == "AuthFailure"
    assert code_of(client(endpoint, region="eu-west-1").describe_regions) == "AuthFailure"


def test_local_zones_are_listed_only_when_asked_for(ec2):
    zones = ec2.describe_availability_zones(AllAvailabilityZones=True)["AvailabilityZones"]
    kinds = {row["ZoneName"]: (row["ZoneType"], row["ZoneId"]) for row in zones}
    assert kinds == {
        "us-east-1a": ("availability-zone", "use1-az6"),
        "us-east-1-bos-1a": ("local-zone", "use1-bos1-az1"),
    }
    assert len(ec2.describe_availability_zones()["AvailabilityZones"]) == 1


def test_history_begins_with_the_price_that_held_and_ends_now(ec2):
    rows = prices(ec2, StartTime=datetime.now(UTC) - timedelta(days=7), ProductDescriptions=["Linux/UNIX"])
    assert [row["SpotPrice"] for row in rows] == ["1.584000", "4.320000", "9.000000"]
    assert {(row["AvailabilityZone"], row["AvailabilityZoneId"]) for row in rows} == {("us-east-1a", "use1-az6")}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 6),
        ({"InstanceTypes": ["p3.2xlarge"]}, 0),
        ({"AvailabilityZone": "us-east-1b"}, 0),
        ({"Filters": [{"Name": "product-description", "Values": ["*VPC*"]}]}, 3),
        ({"StartTime": datetime.now(UTC)}, 2),
        ({"EndTime": datetime.now(UTC) - timedelta(days=2)}, 4),
        ({"EndTime": datetime.now(UTC) + timedelta(days=2)}, 6),
    ],
)
def test_history_filters(ec2, options, count):
    assert len(prices(ec2, **options)) == count


def test_history_comes_in_pages_of_which_some_are_empty(ec2):
    first = ec2.describe_spot_price_history()
    assert first["SpotPriceHistory"] == []
    second = ec2.describe_spot_price_history(NextToken=first["NextToken"])
    assert len(second["SpotPriceHistory"]) == 2
    assert code_of(ec2.describe_spot_price_history, NextToken="nonsense") == "InvalidNextToken"


@given(rows=st.lists(st.integers()), size=st.integers(1, 9), empty_pages=st.booleans())
def test_pages_hold_every_row_once_and_in_order(rows, size, empty_pages):
    found, token, pages = [], None, 0
    while token or not pages:
        more, token = page(rows, token, size, empty_pages)
        found, pages = found + more, pages + 1
        assert len(more) <= size
    assert found == rows
    assert pages == max(1, -(-len(rows) // size)) * (2 if empty_pages else 1)


def test_unknown_filter_is_an_error(ec2):
    wrong = [{"Name": "colour", "Values": ["red"]}]
    assert code_of(ec2.describe_spot_price_history, Filters=wrong) == "InvalidParameterValue"


def test_types_and_offerings_are_those_of_the_region(ec2):
    pages = ec2.get_paginator("describe_instance_types").paginate(InstanceTypes=["p2.16xlarge"])
    [row] = [row for page in pages for row in page["InstanceTypes"]]
    assert (row["VCpuInfo"]["DefaultVCpus"], row["GpuInfo"]["Gpus"][0]["Count"]) == (64, 16)
    assert code_of(ec2.describe_instance_types, InstanceTypes=["g4dn.xlarge"]) == "InvalidInstanceType"
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(LocationType="availability-zone-id")
    places = [(row["InstanceType"], row["Location"]) for page in pages for row in page["InstanceTypeOfferings"]]
    assert places == [("p2.16xlarge", "use1-az6")]


def test_placement_scores_best_first(ec2):
    pages = ec2.get_paginator("get_spot_placement_scores").paginate(
        InstanceTypes=["p2.16xlarge", "g4dn.xlarge"], TargetCapacity=1, SingleAvailabilityZone=True
    )
    rows = [row for page in pages for row in page["SpotPlacementScores"]]
    assert [(row["Region"], row["Score"]) for row in rows] == [("us-west-2", 9), ("us-east-1", 3)]
    assert rows[1]["AvailabilityZoneId"] == "use1-az6"


def test_quotas_applied_and_default(endpoint):
    quotas = client(endpoint, "service-quotas")
    asked = {"ServiceCode": "ec2", "QuotaCode": "L-7212CCBC"}
    assert quotas.get_service_quota(**asked)["Quota"]["Value"] == 0
    assert code_of(quotas.get_service_quota, ServiceCode="ec2", QuotaCode="L-0") == "NoSuchResourceException"
    pages = quotas.get_paginator("list_service_quotas").paginate(ServiceCode="ec2")
    assert len({row["QuotaCode"] for page in pages for row in page["Quotas"]}) == 7


def test_price_list_has_the_price_among_near_misses(endpoint):
    def find(region="us-east-1", **wanted):
        filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()]
        pages = client(endpoint, "pricing", region).get_paginator("get_products")
        pages = pages.paginate(ServiceCode="AmazonEC2", Filters=filters)
        return [json.loads(text) for page in pages for text in page["PriceList"]]

    assert len(find(instanceType="p2.16xlarge")) == 6
    exact = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
    [product] = find(location="US East (N. Virginia)", **exact)
    [term] = product["terms"]["OnDemand"].values()
    [dimension] = term["priceDimensions"].values()
    assert float(dimension["pricePerUnit"]["USD"]) == 14.4
    assert code_of(client(endpoint, "pricing", "us-west-2").get_products, ServiceCode="AmazonEC2")


def test_snapshots_with_tags_sizes_and_keys(ec2):
    rows = {row["SnapshotId"]: row for row in ec2.describe_snapshots(OwnerIds=["self"], MaxResults=1000)["Snapshots"]}
    assert rows == {}  # the empty page
    pages = ec2.get_paginator("describe_snapshots").paginate(OwnerIds=["self"])
    rows = {row["SnapshotId"]: row for page in pages for row in page["Snapshots"]}
    assert (rows["snap-1"]["VolumeSize"], rows["snap-1"]["Encrypted"]) == (150, False)
    assert rows["snap-2"]["KmsKeyId"].startswith("arn:aws:kms:us-east-1")
    tagged = ec2.get_paginator("describe_snapshots").paginate(Filters=[{"Name": "tag:dataset", "Values": ["imagenet"]}])
    assert [row["SnapshotId"] for page in tagged for row in page["Snapshots"]] == ["snap-1"]
