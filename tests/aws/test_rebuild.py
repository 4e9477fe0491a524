"""playbooks/rebuild.yml on the controller's side: which machine stays, which goes. The hosts answer nobody."""

import pytest
from test_retire import MARKET, OFFER, SETTINGS, TYPE, alive, first_instance, ours

from tests.rehearsal.market import IMAGE_PARAMETER, PROFILE
from tests.rehearsal.playing import playbook

OTHER = "c6i.xlarge"
IMAGES = [{"id": "ami-1", "region": "us-west-2", "ssm_parameter": IMAGE_PARAMETER}]
SCENARIO = MARKET | {"offers": [OFFER | {"instance_types": [TYPE, OTHER]}], "images": IMAGES}
REBUILD = SETTINGS | {
    "checkpoint_mirror_enabled": True, "data_volume_enabled": False, "spot_instance_ssh_cidr": "127.0.0.1/32",
    "instance_profiles": {TYPE: PROFILE, OTHER: PROFILE}, "__spot_instance_answer_retries": 1,
}  # fmt: skip


def rebuild(folder, **more):
    done = playbook("rebuild.yml", REBUILD | more, folder)
    return " ".join((done.stdout + done.stderr).split())


def test_it_needs_checkpoints_that_outlive_the_machine(aws, tmp_path):
    with aws(SCENARIO | {"instances": [ours()]}):
        kept = {"data_volume_enabled": True, "data_volume_keep": True}  # the root volume has the checkpoints
        words = rebuild(tmp_path, checkpoint_mirror_enabled=False, spot_market_instance_types=[OTHER], **kept)
        assert "checkpoints that outlive it" in words
        assert "instance" in alive()


@pytest.mark.parametrize(
    ("machine", "more", "why"),
    [
        ({}, {"run_zone": "us-west-2z", "rebuild_without_host": True}, "There is no offer to launch"),
        pytest.param({"market": "on_demand", "state": "stopped"}, {}, "is stopped, so nobody can ask it to save",
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_machine_stays_that_nothing_can_replace_or_nobody_can_ask(aws, tmp_path, machine, more, why):
    with aws(SCENARIO | {"instances": [ours(**machine)]}):
        words = rebuild(tmp_path, spot_market_instance_types=[OTHER], **more)
        assert why in words
        assert "instance" in alive()


@pytest.mark.slow
def test_a_machine_that_cannot_be_asked_stays(aws, tmp_path):
    with aws(SCENARIO | {"instances": [ours()]}):
        words = rebuild(tmp_path, spot_market_instance_types=[OTHER])
        assert "was launched from another controller" in words
        assert "instance" in alive()


@pytest.mark.slow
@pytest.mark.parametrize(("wanted", "stays"), [(TYPE, True), (OTHER, False)])
def test_the_machine_goes_only_for_another_one(aws, tmp_path, wanted, stays):
    with aws(SCENARIO | {"instances": [ours()]}):
        before = first_instance()
        words = rebuild(tmp_path, spot_market_instance_types=[wanted], rebuild_without_host=True)
        # The one that stays has other keys; the new one is none that answers.
        assert ("was launched from another controller" if stays else "Failed to reach") in words, words
        assert alive().count("instance") == 1
        assert (f"{before} ({TYPE} in us-west-2a) ends" not in words) == stays
