"""A run's AWS with real machines behind the double's instances; skipped, with the reason, where none can run."""

import pytest

import tests.rehearsal  # noqa: F401 (the hosts' modules have their names from here)
from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running
from tests.rehearsal import market, playing
from tests.rehearsal.killing import things
from tests.rehearsal.machines import machines


@pytest.fixture(scope="session")
def layers():
    """The module of images to boot from."""
    import image
    import layers

    if reason := image.why_not():
        pytest.skip(reason)
    return layers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The user's directory: runs lie in it."""
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def scenario():
    """A test file may have another one."""
    return market.scenario()


@pytest.fixture(scope="module")
def boots(layers):
    """What a machine boots; a test file may have something else."""
    return layers.with_mxnet()


@pytest.fixture(scope="module")
def endpoint(layers, scenario):
    with running(Scenario.model_validate(scenario)) as url:
        yield url


@pytest.fixture(scope="module")
def before(endpoint):
    """What is at AWS before the first play."""
    return things(endpoint)


@pytest.fixture(scope="module")
def fleet(boots, endpoint, before, tmp_path_factory):
    given = {market.SNAPSHOT: market.data_set(tmp_path_factory.mktemp("data"))}
    with machines(endpoint, boots, tmp_path_factory.mktemp("disks"), given) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def play(fleet, folder, endpoint):
    """`play("train.yml", "--check", name=value)` as the user does: what it printed. Fails unless it `succeeds`."""

    def play(name, *options, succeeds=True, **settings):
        credentials = playing.credentials(endpoint)
        done = playing.playbook(name, market.settings(**settings), folder, *options, **credentials)
        assert (done.returncode == 0) == succeeds, done.stdout + done.stderr
        return done.stdout

    return play
