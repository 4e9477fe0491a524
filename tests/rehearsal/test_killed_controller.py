"""A controller killed at any change at AWS: the next run finds what there is, retiring leaves nothing.

The instances are the double's own: nobody logs in. Three such moments with real machines are in test_train_aws.py.
"""

import pytest

from tests.fakes.aws.clients import client
from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running
from tests.rehearsal import playing
from tests.rehearsal.killing import CHANGES, ends_by_itself, held, kills_until_it_ends, things
from tests.rehearsal.market import CHEAP, TYPE, scenario

pytestmark = pytest.mark.slow
RENT = ("train.yml", "--skip-tags", "host")
# What is rented is replaced by the same in another zone.
REBUILD = ("rebuild.yml", "--skip-tags", "host", "-e", "rebuild_without_host=true", "-e", "run_zone=us-west-2b")
RETIRE = (
    "retire.yml", "-e", "retire_confirmed=true", "-e", "retire_without_results=true", "-e",
    "checkpoint_mirror_keep=false",
)  # fmt: skip
# Nobody answers at an instance's address.
QUICK = {"retire_timeout_seconds": 1, "ansible_timeout": 1}
# Where the account has no network, what makes one matters, which is the role spot_instance.
ROLE = "../tests/aws/spot_instance_play.yml"
ALONE = {
    "checkpoint_mirror_enabled": False, "found_path": "{{ checkout }}/found.json",
    "spot_instance_offers": [
        {"region": CHEAP, "zone": zone, "instance_type": TYPE, "market": "spot", "price_usd_per_hour": price}
        for zone, price in (("us-west-2a", 0.02), ("us-west-2b", 0.025))
    ],
}  # fmt: skip
FOUND = (RENT, RETIRE, QUICK)
MADE = ((ROLE, "-e", "entry=main"), (ROLE, "-e", "entry=retire"), ALONE)


def double(faults, default_network=True):
    """A market whose machines are at once there, at an address that refuses connections."""
    own = scenario(timing=[], addresses=["127.0.0.9"], faults=faults)
    own["regions"][CHEAP]["default_vpc"] = default_network
    return running(Scenario.model_validate(own))


def check_that_all_is_there_once(endpoint, zone, with_data=True):
    alive = [row for row in playing.control(endpoint, "bill") if not row["ended"]]
    [instance] = [row for row in alive if row["kind"] == "instance"]
    volumes = client(endpoint, region=CHEAP).describe_volumes()["Volumes"]
    assert instance["zone"] == zone
    assert {volume["Attachments"][0]["InstanceId"] for volume in volumes} == {instance["id"]}
    assert len(alive) == (4 if with_data else 2)  # the instance, its root; its data and the copy of the snapshot


def check_that_nothing_is_left(endpoint, before, launches):
    assert things(endpoint) == before
    rows = playing.control(endpoint, "bill")
    assert all(row["ended"] for row in rows if row["kind"] != "snapshot")
    assert len([row for row in rows if row["kind"] == "instance"]) == launches


def test_a_life_that_is_killed_at_every_change(tmp_path):
    with double(held()) as endpoint:
        before = things(endpoint)
        assert kills_until_it_ends(endpoint, tmp_path, *RENT, **QUICK) >= 19
        check_that_all_is_there_once(endpoint, "us-west-2a")
        assert kills_until_it_ends(endpoint, tmp_path, *REBUILD, **QUICK) >= 5
        check_that_all_is_there_once(endpoint, "us-west-2b")
        assert kills_until_it_ends(endpoint, tmp_path, *RETIRE, **QUICK) >= 9
        check_that_nothing_is_left(endpoint, before, launches=2)


def test_a_network_that_is_made_while_the_controller_is_killed_at_every_change(tmp_path):
    rent, retire, settings = MADE
    with double(held(), default_network=False) as endpoint:
        before = things(endpoint)
        assert kills_until_it_ends(endpoint, tmp_path, *rent, **settings) >= 15
        check_that_all_is_there_once(endpoint, "us-west-2a", with_data=False)
        assert kills_until_it_ends(endpoint, tmp_path, *retire, **settings) >= 9
        check_that_nothing_is_left(endpoint, before, launches=1)


@pytest.mark.parametrize("network", ["found", "made"])
def test_retiring_right_after_any_kill_leaves_nothing(tmp_path, network):
    rent, retire, settings = FOUND if network == "found" else MADE
    for number in range(100):
        with double([{"action": CHANGES[0], "after": number, "codes": ["held"]}], network == "found") as endpoint:
            before = things(endpoint)
            if ends_by_itself(endpoint, tmp_path, *rent, **settings):
                break
            assert ends_by_itself(endpoint, tmp_path, *retire, **settings), number
            assert things(endpoint) == before, number
    assert number >= 15
