"""playbooks/plan.yml and region.yml as a user calls them, against the double of AWS."""

import json
import shutil

import pytest
import yaml
from permissions import allowed

from tests.roles.playing import PROJECT

P2 = "p2.16xlarge"
MARKET = {
    "regions": {"us-east-1": {}, "us-west-2": {"zones": {"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1"}},
                "eu-west-1": {}, "ap-east-1": {"opt_in": "not-opted-in"}},
    "offers": [
        {"region": "us-east-1", "instance_types": [P2], "on_demand_usd_per_hour": 14.4, "spot_usd_per_hour": 14.4},
        {"region": "us-west-2", "instance_types": [P2], "zones": ["us-west-2a"], "on_demand_usd_per_hour": 14.4,
         "spot_usd_per_hour": [["-6d", 4.32], ["-1h", 1.584]], "score": 7},
        {"region": "us-west-2", "instance_types": [P2], "zones": ["us-west-2b"],
         "spot_usd_per_hour": [["-45d", 0.9]]},
    ],
    "quotas": [{"region": "us-west-2", "market": "spot", "family": "p", "vcpus": 64}],
    "snapshots": [{"id": "snap-1", "region": "us-east-1", "size_gib": 150, "tags": {"dataset": "imagenet"},
                   "encrypted": True}],
    "faults": [{"region": "eu-west-1", "codes": ["UnauthorizedOperation"], "forever": True}],
}  # fmt: skip
OFFER_KEYS = {
    "region", "zone", "zone_id", "instance_type", "market", "price_usd_per_hour", "on_demand_usd_per_hour",
    "images_per_second", "hours", "cost_usd", "snapshot_present", "quota_vcpus", "rank",
}  # fmt: skip


def recap(done):
    return done.stdout.split("PLAY RECAP")[1]


def used(calls):
    return {action for call in calls for action in call["iam"]}


def test_a_plan_is_a_table_a_file_and_a_page(aws, play, calls, tmp_path):
    with aws(MARKET, "plan"):
        done = play("plan.yml", "spot_market_plan_path=out/plan.json", "spot_market_kms_key_alias=alias/aws/ebs")
        assert done.returncode == 0, done.stdout
        again = play("plan.yml", "spot_market_plan_path=out/plan.json", "--check")
    plan = json.loads((tmp_path / "out/plan.json").read_text())
    best = plan["offers"][0]
    assert set(best) >= OFFER_KEYS
    assert (best["zone"], best["zone_id"], best["market"], best["rank"]) == ("us-west-2a", "usw2-az2", "spot", 1)
    assert (best["price_usd_per_hour"], best["quota_vcpus"], best["placement_score"]) == (1.584, 64, 7)
    assert best["cost_usd"]["compute"] == pytest.approx(79.20, abs=0.005)
    assert best["cost_usd"]["copy"] > 0
    assert "Plotly.newPlot" in (tmp_path / "out/plan.html").read_text()
    for words in (
        "89%", "no gain", "the region failed: UnauthorizedOperation", "stale", "ap-east-1",
        "The same run on demand: $7", f"{tmp_path}/out/plan.html",
    ):  # fmt: skip
        assert words in done.stdout
    assert "changed=0" in recap(done)
    assert "changed=0" in recap(again)
    assert json.loads((tmp_path / "out/plan.json").read_text()) == plan, "check mode wrote"
    assert used(calls()) == allowed("plan")


@pytest.fixture
def inventory_without_region_files(tmp_path):
    folder = tmp_path / "inventory/aws"
    shutil.copytree(PROJECT / "inventory/aws", folder, ignore=shutil.ignore_patterns("aws_region_*"))
    return folder


def test_when_nothing_can_be_had_the_play_fails_with_the_reasons_and_the_plan_is_there(
    aws, play, tmp_path, inventory_without_region_files
):
    offers = [{"region": "us-west-2", "instance_types": ["g5.12xlarge"], "spot_usd_per_hour": 2.0}]
    with aws({"offers": offers}):
        types = "spot_market_instance_types=p2.16xlarge,p5.48xlarge,p2.16xlarge"
        path = "spot_market_plan_path=plan.json"
        done = play("plan.yml", path, types, inventory=inventory_without_region_files)
    assert done.returncode == 2
    words = " ".join(done.stdout.split())
    for part in (
        "p2.16xlarge: not offered in this region (us-west-2)", "p5.48xlarge: MXNet's last wheels hold no code",
        "g5.12xlarge, about 922 images/s: us-west-2",
    ):  # fmt: skip
        assert part in words
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["offers"] == []
    assert len(plan["rejected"]) == 2


BAD = [
    ({"spot_market_max_price": 5}, "Unknown settings: spot_market_max_price"),
    (
        {"spot_market_budget_usd": 0, "spot_market_measured_images_per_second": {"p2.16xlarge": "fast"},
         "spot_market_max_price_by_region_usd": {"us-west-2": -1}},
        "spot_market_max_price_by_region_usd[us-west-2] must be a number above 0, got -1, "
        "spot_market_budget_usd must be a number above 0, got 0, "
        "spot_market_measured_images_per_second[p2.16xlarge] must be a number above 0, got fast",
    ),
    ({"spot_market_attained_share": 90}, "spot_market_attained_share must be at most 1, got 90"),
    ({"spot_market_deadline": "soon"}, 'hours from now like "48", got "soon"'),
]  # fmt: skip


def test_bad_settings_are_an_error_in_words(aws, play, tmp_path):
    """One play, and each of its hosts has a setting of its own."""
    hosts = {f"bad-{number}": settings for number, (settings, _) in enumerate(BAD)}
    more = tmp_path / "hosts.json"
    more.write_text(json.dumps({"aws_region_us_west_2": {"hosts": hosts}}))
    with aws(MARKET):
        done = play("plan.yml", "spot_market_plan_path=plan.json", f"--inventory={more}", "--limit=bad-*")
    assert done.returncode == 2
    told = " ".join((done.stdout + done.stderr).split())
    for number, (_, message) in enumerate(BAD):
        assert message in told.split(f"fatal: [bad-{number}]: ")[1].split("fatal: ")[0]


def test_a_region_is_added_by_one_file_that_is_never_overwritten(aws, play, calls, tmp_path):
    file = tmp_path / "aws_region_us_west_2.yml"
    images = [{"id": "ami-1", "region": "us-west-2", "ssm_parameter": "/aws/service/debian/release/12/latest/amd64"}]
    with aws({"regions": {"us-west-2": {"zones": {"us-west-2a": "usw2-az2"}}}, "images": images}, "region"):
        local = PROJECT / "inventory/local"  # as it is called: nothing of inventory/aws is needed
        done = play("region.yml", "region=us-west-2", f"region_file={file}", inventory=local)
        assert done.returncode == 0, done.stdout
        assert "changed=1" in recap(done)
        file.write_text(file.read_text() + "# mine\n")
        given = '{"region_image_id": "ami-2", "region_subnet_ids": {}}'
        again = play("region.yml", "region=us-west-2", f"region_file={file}", given, inventory=local)
        assert "changed=0" in recap(again)
    facts = yaml.safe_load(file.read_text())
    assert facts["region_name"] == "us-west-2"
    assert list(facts["region_subnet_ids"]) == ["us-west-2a"]
    assert "# mine" in file.read_text()
    shipped = yaml.safe_load((PROJECT / "inventory/aws/group_vars/aws_region_us_west_2.yml").read_text())
    assert list(facts) == list(shipped)
    assert used(calls()) == allowed("region")
