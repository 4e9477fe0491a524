"""An S3 that misbehaves: the mirror says so, training's files stay as they are, and it catches up."""

import threading
import time

import pytest
from botocore.config import Config as ClientConfig
from fakes.s3 import CREDENTIALS, S3, cut_download, cut_upload, damage_upload, error, silence
from mirror_runs import add_checkpoint, content, follower, make_run, mirrored_steps

from trainer.errors import DataError
from trainer.spot import mirror as s3_place
from trainer.spot.fetch import fetch
from trainer.spot.place import PlaceError

PART_BYTES = s3_place.PART_BYTES


@pytest.fixture
def s3(monkeypatch):
    server = S3(f"b{time.time_ns()}")
    for key, value in server.environment().items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(s3_place, "_CLIENT", ClientConfig(read_timeout=20, retries={"total_max_attempts": 1}))
    yield server
    server.stop()


@pytest.fixture
def here(tmp_path, s3):
    return make_run(tmp_path / "here", checkpoint_mirror=f"s3://{s3.bucket}/runs")


def assert_caught_up(mirror, run, config):
    assert mirror.attempt()
    assert (mirror.state.error, mirror.state.checkpoint) == (None, run.latest.read_text().strip())
    assert mirrored_steps(config)[0] == mirror.state.step


def no_xml(_environ, start_response):
    start_response("502 Bad Gateway", [])
    return [b"<html>a proxy's page</html>"]


FAULTS = {
    "expired credentials": (error("ExpiredToken", "The token has expired.", "400 Bad Request"), "ExpiredToken"),
    "no permission": (error("AccessDenied", "Access Denied", "403 Forbidden"), "AccessDenied"),
    "busy": (error("SlowDown", "Please reduce your request rate.", "503 Slow Down"), "SlowDown"),
    "broken": (error("InternalError", "We encountered an error.", "500 Internal Server Error"), "InternalError"),
    "no XML": (no_xml, "502"),
    "bytes that change on the way": (damage_upload, "BadDigest"),
    "a connection that breaks": (cut_upload(after=0), "onnection"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_counted_and_told_and_the_mirror_catches_up(s3, here, fault):
    run, config = here
    add_checkpoint(run, 10)
    mirror = follower(run, config)
    assert mirror.attempt()
    add_checkpoint(run, 20)
    s3.fault, words = FAULTS[fault]
    for count in (1, 2):
        assert not mirror.attempt()
        assert words in mirror.state.error
        assert mirror.state.failures_total == count
        assert mirror.state.checkpoint == "00000010-0"
    s3.fault = None
    assert mirrored_steps(config) == [10]
    assert_caught_up(mirror, run, config)


def test_refused_connections(s3, here):
    run, config = here
    add_checkpoint(run, 10)
    mirror = follower(run, config)
    s3.stop()
    assert not mirror.attempt()
    assert "Could not connect" in mirror.state.error
    s3.start()
    assert_caught_up(mirror, run, config)


def test_an_answer_that_does_not_come(s3, here, monkeypatch):
    run, config = here
    add_checkpoint(run, 10)
    mirror, over = follower(run, config), threading.Event()
    s3.fault = silence(over)
    patient = s3_place._CLIENT
    monkeypatch.setattr(s3_place, "_CLIENT", patient.merge(ClientConfig(read_timeout=0.5)))
    assert not mirror.attempt()
    assert "Read timeout" in mirror.state.error
    monkeypatch.setattr(s3_place, "_CLIENT", patient)
    over.set()
    assert_caught_up(mirror, run, config)


def test_a_bucket_that_is_gone(s3, here):
    run, config = here
    add_checkpoint(run, 10)
    mirror = follower(run, config)
    s3.client.delete_bucket(Bucket=s3.bucket)
    assert not mirror.attempt()
    assert "NoSuchBucket" in mirror.state.error
    s3.client.create_bucket(Bucket=s3.bucket)
    assert_caught_up(mirror, run, config)


def test_no_credentials(s3, here, monkeypatch, tmp_path):
    run, config = here
    add_checkpoint(run, 10)
    for key in CREDENTIALS:
        if key != "AWS_EC2_METADATA_DISABLED":
            monkeypatch.delenv(key)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    mirror = follower(run, config)
    assert not mirror.attempt()
    assert "Unable to locate credentials" in mirror.state.error
    with open(tmp_path / "none", "w") as file:  # they come later: no restart is needed
        file.write(f"[default]\naws_access_key_id = {CREDENTIALS['AWS_ACCESS_KEY_ID']}\naws_secret_access_key = x\n")
    assert_caught_up(mirror, run, config)


def test_renewed_credentials_are_taken_without_a_restart(s3, here, monkeypatch):
    run, config = here
    add_checkpoint(run, 10)
    mirror = follower(run, config)
    assert mirror.attempt()
    expired = FAULTS["expired credentials"][0]

    def old_key_is_expired(environ, start_response):
        return expired(environ, start_response) if "AKIAFORTESTSONLY" in environ["HTTP_AUTHORIZATION"] else None

    s3.fault = old_key_is_expired
    add_checkpoint(run, 20)
    assert not mirror.attempt()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIARENEWED")
    assert mirror.attempt()
    assert (mirror.state.error, mirror.state.checkpoint) == (None, "00000020-0")


def test_parts_that_arrived_are_not_sent_again(s3, here):
    run, config = here
    add_checkpoint(run, 10, size=3 * PART_BYTES + 100)
    mirror = follower(run, config)
    s3.fault = cut_upload(after=3)  # state.json and two parts arrive
    assert not mirror.attempt()
    assert len(s3.unfinished()) == 1
    assert mirrored_steps(config) == []
    s3.fault, s3.requests[:] = None, []
    assert_caught_up(mirror, run, config)
    assert s3.sent("PUT", "uploadId=") == 2
    assert s3.unfinished() == []
    assert mirror.state.bytes < 2 * PART_BYTES + 10_000


def test_what_was_sent_in_parts_comes_back_whole(s3, here, tmp_path):
    run, config = here
    path = add_checkpoint(run, 10, size=2 * PART_BYTES)
    assert follower(run, config).attempt()
    fresh, config = make_run(tmp_path / "elsewhere", checkpoint_mirror=config.checkpoint_mirror)
    fetch(fresh, config, print)
    assert content(fresh.checkpoints / path.name) == content(path)


def test_unfinished_uploads_of_checkpoints_that_are_gone_are_removed(s3, here):
    run, config = here
    path = add_checkpoint(run, 10, size=2 * PART_BYTES)
    mirror = follower(run, config)
    s3.fault = cut_upload(after=1)
    assert not mirror.attempt()
    s3.fault = None
    path.rename(run.directory / "rotated")
    add_checkpoint(run, 20)
    assert_caught_up(mirror, run, config)
    assert s3.unfinished() == []


def test_a_large_file_that_is_damaged_while_it_is_sent_does_not_arrive(s3, here, monkeypatch):
    run, config = here
    path = add_checkpoint(run, 10, size=2 * PART_BYTES)
    mirror = follower(run, config)
    pace = mirror.orders.pace

    def damage(count):
        with open(path / "weights.params", "r+b") as file:
            file.seek(PART_BYTES + 5)
            file.write(b"damage")
        pace(count)

    monkeypatch.setattr(mirror.orders, "pace", damage)
    assert not mirror.attempt()
    assert "is damaged here" in mirror.state.error
    assert s3.unfinished() == []
    assert mirrored_steps(config) == []


def test_an_answer_that_gets_lost_after_latest_was_written(s3, here):
    """The write is there, the trainer does not know: it finds itself as the owner and goes on."""
    run, config = here
    add_checkpoint(run, 10)
    mirror = follower(run, config)
    assert mirror.attempt()
    mirror.place.swap("LATEST", *_same(mirror.place))
    add_checkpoint(run, 20)
    assert mirror.attempt()
    assert mirrored_steps(config) == [20, 10]


def _same(place):
    """Another version of LATEST with the same words."""
    text, tag = place.read("LATEST")
    return text + b"\n", tag


@pytest.mark.parametrize("fault", ["refused", "expired credentials", "cut downloads"])
def test_a_fresh_host_that_cannot_get_its_checkpoint_does_not_start_from_scratch(s3, here, tmp_path, fault):
    run, config = here
    add_checkpoint(run, 10)
    assert follower(run, config).attempt()
    fresh, config = make_run(tmp_path / "elsewhere", checkpoint_mirror=config.checkpoint_mirror)
    if fault == "refused":
        s3.stop()
    else:
        s3.fault = cut_download if fault == "cut downloads" else FAULTS[fault][0]
    with pytest.raises((PlaceError, DataError), match="from the start"):
        fetch(fresh, config, print)
    assert not fresh.latest.exists()
    if fault == "refused":
        s3.start()
    s3.fault = None
    fetch(fresh, config, print)
    assert content(fresh.checkpoints / "00000010-0") == content(run.checkpoints / "00000010-0")


def test_a_host_that_has_a_checkpoint_goes_on_without_the_mirror(s3, here):
    run, config = here
    add_checkpoint(run, 10)
    s3.fault = FAULTS["no permission"][0]
    said = []
    fetch(run, config, said.append)
    assert "AccessDenied" in said[0]
    assert said[0].endswith("continuing from the checkpoint that is here (step 10)")


def test_secrets_stand_in_no_file_and_no_error(s3, here):
    run, config = here
    add_checkpoint(run, 10)
    s3.fault = FAULTS["expired credentials"][0]
    mirror = follower(run, config)
    mirror.attempt()
    s3.fault = None
    assert_caught_up(mirror, run, config)
    files = [path.read_bytes() for path in run.directory.rglob("*") if path.is_file()]
    for secret in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        assert not any(CREDENTIALS[secret].encode() in data for data in [*files, *s3.objects()])


def test_the_double_answers_on_loopback_only(s3):
    assert s3.url.startswith("http://127.0.0.1:")
