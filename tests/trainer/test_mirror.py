"""The second place for checkpoints: what arrives there, what stays, what is brought back."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from fakes.s3 import S3
from hypothesis import given, settings
from hypothesis import strategies as st
from mirror_runs import add_checkpoint, content, follower, make_run, mirrored_steps, there

from trainer.errors import ConfigError, DataError
from trainer.spot import owner
from trainer.spot.fetch import fetch
from trainer.spot.local import read_checksums
from trainer.spot.orders import Orders
from trainer.spot.place import PlaceError, SwappedError, place_of

_LEAF = st.none() | st.integers() | st.text() | st.sampled_from(["../x", "00000010-0"])
_JSON = st.dictionaries(st.sampled_from(["owner", "copies", "name", "../x", "a"]), _LEAF | st.lists(
    st.dictionaries(st.sampled_from(["name", "directory", "step", "validated_epochs"]), _LEAF)
) | st.dictionaries(st.text(), _LEAF))


@pytest.fixture(params=["file", "s3"])
def url(request, tmp_path, monkeypatch):
    """Of an empty second place."""
    if request.param == "file":
        (tmp_path / "second place").mkdir()
        yield f"file://{tmp_path}/second%20place"
        return
    s3 = S3(f"b{time.time_ns()}")
    for key, value in s3.environment().items():
        monkeypatch.setenv(key, value)
    yield f"s3://{s3.bucket}/some/prefix"
    s3.stop()


@pytest.fixture
def here(tmp_path, url):
    return make_run(tmp_path / "here", checkpoint_mirror=url)


def elsewhere(tmp_path, url):
    """The same run on a fresh host, with nothing but its configuration."""
    run, config = make_run(tmp_path / "elsewhere", checkpoint_mirror=url)
    run.events.unlink()
    run.samples.unlink()
    return run, config


def directories(url):
    """Those under checkpoints/ over there, named or not."""
    return {key.split("/")[1] for key in there(url, "tiny").sizes("checkpoints/")}


def damage(url, part_of_key):
    """A byte of a file over there changes."""
    place = there(url, "tiny")
    (key,) = [key for key in place.sizes("") if part_of_key in key]
    data = bytearray(place.read(key)[0])
    data[len(data) // 2] ^= 1
    place.swap(key, bytes(data), place.read(key)[1])


def test_a_checkpoint_arrives_and_a_fresh_host_gets_it_byte_for_byte(tmp_path, url, here):
    run, config = here
    path = add_checkpoint(run, 10, size=3_000_000)
    run.tuning.write_text('{"config": {"batch_size": 96}}')
    assert follower(run, config).attempt()
    state = json.loads(run.mirror_state.read_text())
    assert (state["checkpoint"], state["step"], state["error"], state["failures_total"]) == (path.name, 10, None, 0)
    assert state["bytes"] == sum(map(len, content(path).values()))
    fresh, config = elsewhere(tmp_path, url)
    said = []
    fetch(fresh, config, said.append)
    assert content(fresh.checkpoints / path.name) == content(path)
    assert fresh.latest.read_text() == path.name + "\n"
    for path in (run.events, run.samples, run.tuning):
        assert (fresh.directory / path.name).read_bytes() == path.read_bytes()
    assert said == [f"{url} has step 10, here is none: bringing it here", "checkpoint of step 10 is here"]


def test_who_was_killed_between_checkpoint_and_log_gets_the_log_the_next_time(tmp_path, url, here):
    run, config = here
    add_checkpoint(run, 10)
    follower(run, config).attempt()
    fresh, config = elsewhere(tmp_path, url)
    fetch(fresh, config, print)
    fresh.events.unlink()
    fetch(fresh, config, print)
    assert fresh.events.read_bytes() == run.events.read_bytes()


def test_it_keeps_what_the_run_directory_keeps_and_a_fresh_host_gets_all_of_it(tmp_path, url, here):
    run, config = here
    mirror, best = follower(run, config), add_checkpoint(run, 10)
    for step in (20, 30, 40):
        add_checkpoint(run, step)
        assert mirror.attempt()
    shutil.rmtree(run.checkpoints / "00000020-0")
    assert mirror.attempt()
    assert mirrored_steps(config) == [40, 30, 10]
    assert len(directories(url)) == 3
    fresh, config = elsewhere(tmp_path, url)
    fetch(fresh, config, print)
    assert {path.name for path in fresh.checkpoints.iterdir()} == {path.name for path in run.checkpoints.iterdir()}
    assert content(fresh.checkpoints / best.name) == content(best)
    assert fresh.latest.read_text() == "00000040-0\n"


def test_what_is_there_is_not_sent_again(url, here):
    run, config = here
    add_checkpoint(run, 10)
    follower(run, config).attempt()
    again = follower(run, config, "another")
    assert again.attempt()
    assert (again.state.checkpoint, again.state.bytes) == ("00000010-0", 0)


def refuse(*_):
    raise PlaceError("full")


def test_files_that_arrived_before_a_failure_are_not_sent_again(url, here, monkeypatch):
    run, config = here
    mirror = follower(run, config)
    mirror.attempt()
    path = add_checkpoint(run, 10)
    monkeypatch.setattr(mirror.place, "swap", refuse)
    assert not mirror.attempt()
    assert mirror.attempt()  # with a place made anew
    assert (mirror.state.checkpoint, mirror.state.bytes) == (path.name, 0)


def test_what_was_the_newest_stays_until_all_of_the_new_ones_are_there(tmp_path, url, here, monkeypatch):
    run, config = here
    add_checkpoint(run, 10)
    mirror = follower(run, config)
    mirror.attempt()
    (run.checkpoints / "00000010-0").rename(tmp_path / "rotated")
    add_checkpoint(run, 20)
    add_checkpoint(run, 30)
    real, fill_ins = mirror.place.put, []

    def put(key, *rest):
        if "00000020" in key:
            fill_ins.append(mirrored_steps(config))
        real(key, *rest)

    monkeypatch.setattr(mirror.place, "put", put)
    assert mirror.attempt()
    assert fill_ins[0] == [30, 10]
    assert mirrored_steps(config) == [30, 20]


def test_the_same_name_with_other_content_is_another_checkpoint(tmp_path, url, here):
    run, config = here
    add_checkpoint(run, 10)
    mirror = follower(run, config)
    mirror.attempt()
    run.checkpoints.rename(tmp_path / "given up")
    path = add_checkpoint(run, 10, seed=1)
    assert mirror.attempt()
    fresh, config = elsewhere(tmp_path, url)
    fetch(fresh, config, print)
    assert content(fresh.checkpoints / path.name) == content(path)
    assert len(directories(url)) == 1


def test_checkpoints_that_are_given_up_here_are_given_up_there(tmp_path, url, here):
    """Weights whose loss is no number are removed: they must not come back from the second place."""
    run, config = here
    add_checkpoint(run, 10)
    add_checkpoint(run, 20)
    mirror = follower(run, config)
    mirror.attempt()
    (run.checkpoints / "00000020-0").rename(tmp_path / "20")
    assert mirror.attempt()
    assert mirrored_steps(config) == [10]
    (run.checkpoints / "00000010-0").rename(tmp_path / "10")
    assert mirror.attempt()
    assert mirrored_steps(config) == [10]  # who knows why it is gone
    run.events.write_text('{"t":1,"kind":"stop","reason":"non_finite_loss"}\n')
    assert mirror.attempt()
    assert (mirrored_steps(config), directories(url)) == ([], set())
    assert mirror.state.checkpoint is None


def test_an_empty_run_directory_takes_nothing_away(tmp_path, url, here):
    run, config = here
    add_checkpoint(run, 10)
    follower(run, config).attempt()
    fresh, config = elsewhere(tmp_path, url)
    assert follower(fresh, config, "fresh").attempt()
    assert mirrored_steps(config) == [10]


def test_a_checkpoint_that_is_rotated_away_while_it_is_sent_still_arrives(tmp_path, url, here, monkeypatch):
    run, config = here
    add_checkpoint(run, 10)
    mirror = follower(run, config)
    real = mirror.orders.pace

    def rotate(count):
        if (run.checkpoints / "00000010-0").exists():
            (run.checkpoints / "00000010-0").rename(tmp_path / "gone")
            add_checkpoint(run, 20)
        real(count)

    monkeypatch.setattr(mirror.orders, "pace", rotate)
    assert mirror.attempt()
    assert mirror.state.checkpoint == "00000010-0"
    assert mirror.attempt()
    assert (mirror.state.checkpoint, mirrored_steps(config)) == ("00000020-0", [20])


def test_the_older_ones_wait_when_a_newer_one_appears(url, here, monkeypatch):
    run, config = here
    add_checkpoint(run, 10)
    add_checkpoint(run, 20)
    mirror = follower(run, config)
    real, order = mirror._arrived, []
    monkeypatch.setattr(mirror, "_arrived", lambda one, sent: (order.append(one.copy.step), real(one, sent)))
    real_pace = mirror.orders.pace

    def pace(count):
        if order == [20] and not (run.checkpoints / "00000030-0").exists():
            add_checkpoint(run, 30)
        real_pace(count)

    monkeypatch.setattr(mirror.orders, "pace", pace)
    assert mirror.attempt()
    assert mirrored_steps(config) == [20]
    assert mirror.attempt()
    assert (order, mirrored_steps(config)) == ([20, 30], [30, 20, 10])


DAMAGE = {
    "another byte": lambda path: (path / "weights.params").write_bytes(b"x" * 1000),
    "a file that is gone": lambda path: (path / "weights.params").unlink(),
    "an empty file": lambda path: (path / "weights.params").write_bytes(b""),
    "a folder for a file": lambda path: ((path / "weights.params").unlink(), (path / "weights.params").mkdir()),
    "a file too many": lambda path: (path / "more").write_bytes(b""),
    "no checksums": lambda path: (path / "checksums.json").unlink(),
}


@pytest.mark.parametrize(
    ("url", "damage", "step"),
    [*(("file", kind, 20) for kind in DAMAGE), *((kind, "a file that is gone", 30) for kind in ("file", "s3")),
     ("file", "another byte", 10)],
    indirect=["url"],
)  # fmt: skip
def test_those_that_are_damaged_here_are_told_once_and_hold_nothing_up(tmp_path, url, here, damage, step):
    run, config = here
    add_checkpoint(run, 5)
    mirror, told = follower(run, config), []
    mirror.attempt()
    (run.checkpoints / "00000005-0").rename(tmp_path / "rotated")
    for number in (10, 20, 30):
        path = add_checkpoint(run, number)
        if number == step:
            DAMAGE[damage](path)
    for _ in range(3):
        mirror.attempt()
        told.append(mirror.state.error)
    good = [number for number in (30, 20, 10) if number != step]
    assert mirrored_steps(config) == good
    assert len(directories(url)) == 2
    assert mirror.state.step == good[0]
    assert told[1:] == [None, None]
    if damage != "no checksums":
        assert f"{run.checkpoints}/{step:08d}-0: is damaged here and not sent: " in told[0]
    add_checkpoint(run, 40)
    assert mirror.attempt()
    assert (mirror.state.error, mirror.state.step, mirrored_steps(config)) == (None, 40, [40, *good])


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_if_all_are_damaged_here_nothing_is_taken_away_there(tmp_path, url, here):
    run, config = here
    add_checkpoint(run, 10)
    mirror = follower(run, config)
    mirror.attempt()
    (run.checkpoints / "00000010-0").rename(tmp_path / "rotated")
    DAMAGE["another byte"](add_checkpoint(run, 20))
    for _ in range(3):
        mirror.attempt()
    assert (mirrored_steps(config), len(directories(url))) == ([10], 1)


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_one_that_was_damaged_after_it_was_sent_stays_there(tmp_path, url, here):
    run, config = here
    path = add_checkpoint(run, 10)
    mirror = follower(run, config)
    mirror.attempt()
    DAMAGE["another byte"](path)
    add_checkpoint(run, 20)
    assert mirror.attempt()
    assert mirrored_steps(config) == [20, 10]


@pytest.mark.parametrize("damaged_file", ["weights.params", "checksums.json"])
def test_one_that_is_damaged_there_is_passed_over(tmp_path, url, here, damaged_file):
    run, config = here
    add_checkpoint(run, 10)
    add_checkpoint(run, 20)
    follower(run, config).attempt()
    damage(url, f"00000020-0-{_digest(config, 20)}/{damaged_file}")
    fresh, config = elsewhere(tmp_path, url)
    said = []
    fetch(fresh, config, said.append)
    assert fresh.latest.read_text() == "00000010-0\n"
    assert any(line.startswith("passed over: 00000020-0") for line in said)
    assert (fresh.checkpoints / "00000010-0").is_dir()
    assert not (fresh.checkpoints / "00000020-0").exists()


def _digest(config, step):
    latest = owner.read(there(config.checkpoint_mirror, "tiny"))
    return next(copy.directory[-16:] for copy in latest.copies if copy.step == step)


def test_nothing_whole_anywhere_is_refused(tmp_path, url, here):
    run, config = here
    add_checkpoint(run, 10)
    follower(run, config).attempt()
    damage(url, "weights.params")
    fresh, config = elsewhere(tmp_path, url)
    with pytest.raises(DataError, match="no checkpoint of the mirror is whole, and none is here"):
        fetch(fresh, config, print)


def test_a_newer_one_here_stays(tmp_path, url, here):
    run, config = here
    add_checkpoint(run, 10)
    follower(run, config).attempt()
    newer = add_checkpoint(run, 20)
    said = []
    fetch(run, config, said.append)
    assert (said, run.latest.read_text()) == ([], newer.name + "\n")


def test_a_damaged_newer_one_here_is_no_reason_to_keep_the_older_one_away(tmp_path, url, here):
    run, config = here
    path = add_checkpoint(run, 10)
    follower(run, config).attempt()
    (path / "weights.params").write_bytes(b"")
    fetch(run, config, print)
    assert len((path / "weights.params").read_bytes()) == 1000


def test_a_log_that_is_here_is_not_replaced(tmp_path, url, here):
    run, config = here
    add_checkpoint(run, 10)
    follower(run, config).attempt()
    fresh, config = elsewhere(tmp_path, url)
    fresh.events.write_text("mine\n")
    fetch(fresh, config, print)
    assert fresh.events.read_text() == "mine\n"
    assert not fresh.samples.exists()


def test_a_fetch_that_was_cut_off_goes_on_where_it_was(tmp_path, url, here, monkeypatch):
    run, config = here
    path = add_checkpoint(run, 10)
    follower(run, config).attempt()
    fresh, config = elsewhere(tmp_path, url)
    half = fresh.checkpoints / "00000010-0.unfinished"
    half.mkdir(parents=True)
    (half / "weights.params").write_bytes((path / "weights.params").read_bytes())
    (half / "state.json").write_bytes(b"{half")
    (half / ".optimizer.params.1.draft").write_bytes(b"of a killed writer")
    brought = []
    place = type(there(url, "tiny"))
    real = place.get
    monkeypatch.setattr(place, "get", lambda self, key, to: (brought.append(to.name), real(self, key, to))[1])
    fetch(fresh, config, print)
    assert content(fresh.checkpoints / path.name) == content(path)
    assert "weights.params" not in brought
    assert not half.exists()


def test_too_little_space_is_told_before_anything_is_brought(tmp_path, url, here, monkeypatch):
    run, config = here
    path = add_checkpoint(run, 10, size=1_000_000)
    follower(run, config).attempt()
    fresh, config = elsewhere(tmp_path, url)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=500_000))
    with pytest.raises(PlaceError, match=r"must have 1\.0 MB of space, got 0\.5 MB"):
        fetch(fresh, config, print)
    assert not list(fresh.checkpoints.rglob("*.params"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    fetch(fresh, config, print)
    assert content(fresh.checkpoints / path.name) == content(path)


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", ".hidden"])
def test_names_that_lead_out_of_the_run_directory_are_refused(tmp_path, url, here, name):
    run, config = here
    copy = {"name": name, "directory": name, "step": 10, "validated_epochs": 0}
    there(url, "tiny").swap("LATEST", json.dumps({"owner": {}, "copies": [copy]}).encode(), None)
    with pytest.raises(PlaceError, match="LATEST of the mirror must be"):
        fetch(run, config, print)
    assert not run.latest.exists()


def test_a_latest_that_is_none_is_an_error_not_an_empty_place(tmp_path, url, here):
    run, config = here
    there(url, "tiny").swap("LATEST", b"00000010-0\n", None)
    with pytest.raises(PlaceError, match="LATEST of the mirror must be"):
        fetch(run, config, print)


def test_a_trainer_that_began_later_owns_the_place(tmp_path, url, here):
    run, config = here
    add_checkpoint(run, 10)
    first = follower(run, config, "first", "old-host")
    assert first.attempt()
    other, other_config = elsewhere(tmp_path, url)
    fetch(other, other_config, print)
    second = follower(other, other_config, "second", "new-host")
    assert second.attempt()
    add_checkpoint(run, 99)
    first.attempt()
    assert first.state.given_up
    assert "taken over by a trainer on new-host" in first.state.error
    first.attempt()
    assert first.state.failures_total == 1
    assert mirrored_steps(config) == [10]
    add_checkpoint(other, 20)
    assert second.attempt()
    assert mirrored_steps(config) == [20, 10]


def test_the_mirror_of_a_trainer_that_lost_the_place_does_not_claim_it_again(tmp_path, url, here):
    run, config = here
    follower(run, config, "first").attempt()
    other, other_config = elsewhere(tmp_path, url)
    follower(other, other_config, "second", "new-host").attempt()
    restarted = follower(run, config, "first")
    restarted.attempt()
    assert restarted.state.given_up
    assert owner.read(there(url, "tiny")).owner["id"] == "second"


def test_the_mirror_of_a_trainer_that_never_had_the_place_claims_it_later(tmp_path, url, here):
    run, config = here
    follower(run, config, "before").attempt()
    mirror = follower(run, config, "me")
    mirror.config = config.model_copy(update={"checkpoint_mirror": f"file://{tmp_path}/not-there"})
    assert not mirror.attempt()
    restarted = follower(run, config, "me")
    assert restarted.attempt()
    assert owner.read(there(url, "tiny")).owner["id"] == "me"
    assert restarted.state.failures_total == 1


def test_logs_of_a_trainer_that_lost_the_place_do_not_go_there(tmp_path, url, here):
    run, config = here
    first = follower(run, config, "first")
    first.attempt()
    other, other_config = elsewhere(tmp_path, url)
    other.events.write_text("the new owner's\n")
    follower(other, other_config, "second").attempt()
    run.events.write_text("the old owner's\n")
    first.orders.ended = True
    first.attempt()
    assert first.state.given_up
    assert there(url, "tiny").read("events.jsonl")[0] == b"the new owner's\n"


def test_two_claims_at_once_leave_one_owner(url, here):
    places = [place_of(url, "tiny") for _ in range(3)]
    threads = [
        threading.Thread(target=owner.claim, args=(place, {"id": str(number)}, False))
        for number, place in enumerate(places)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert owner.read(places[0]).owner["id"] in {"0", "1", "2"}


def test_a_write_on_an_old_version_is_refused(url):
    place = there(url, "tiny")
    tag = place.swap("LATEST", b"one", None)
    place.swap("LATEST", b"two", tag)
    for old in (tag, None):
        with pytest.raises(SwappedError):
            place.swap("LATEST", b"three", old)
    assert place.read("LATEST")[0] == b"two"


def test_the_logs_go_along_at_most_once_a_minute_and_at_the_end(url, here):
    run, config = here
    add_checkpoint(run, 10)
    mirror, place = follower(run, config), there(url, "tiny")
    mirror.attempt()
    assert place.read("config.toml")[0] == run.config.read_bytes()
    first = run.events.read_bytes()
    with open(run.events, "a") as file:
        file.write('{"t":2,"kind":"stop"}\n')
    mirror.attempt()
    assert place.read("events.jsonl")[0] == first
    mirror.orders.ended = True
    mirror.attempt()
    assert place.read("events.jsonl")[0] == run.events.read_bytes()


def test_runs_of_one_place_do_not_meet(tmp_path, url, here):
    run, config = here
    add_checkpoint(run, 10)
    follower(run, config).attempt()
    other, other_config = make_run(tmp_path / "here", "other", checkpoint_mirror=url)
    fetch(other, other_config, print)
    assert not other.checkpoints.exists()


def test_nothing_is_left_of_what_a_killed_mirror_was_writing(tmp_path):
    (tmp_path / "place").mkdir()
    run, config = make_run(tmp_path / "here", checkpoint_mirror=f"file://{tmp_path}/place")
    copies = tmp_path / "place" / "tiny" / "checkpoints"
    path = add_checkpoint(run, 10)
    mirror = follower(run, config)
    mirror.attempt()
    (copies / "00000005-0-aaaa").mkdir()
    for folder in (copies / "00000005-0-aaaa", next(copies.glob("00000010*"))):
        (folder / ".weights.params.123.draft").write_bytes(b"half")
    add_checkpoint(run, 20)
    mirror.attempt()
    files = [file for file in copies.glob("**/*") if file.is_file()]
    assert len(files) == 2 * len(content(path))


def test_a_claim_and_the_housekeeping_of_the_owner_before_do_not_meet(tmp_path):
    """Each draft of LATEST is there long enough for the other to see it."""
    (tmp_path / "place").mkdir()
    place, over = place_of(f"file://{tmp_path}/place", "tiny"), threading.Event()

    def tidy():
        while not over.is_set():
            place.keep_only(())

    with ThreadPoolExecutor(1) as pool:
        tidying, tag = pool.submit(tidy), None
        try:
            for _ in range(200):
                tag = place.swap("LATEST", b"x" * 100_000, tag)
        finally:
            over.set()
        tidying.result()


def test_a_folder_that_is_not_there_is_no_empty_mirror(tmp_path):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=f"file://{tmp_path}/not-mounted")
    with pytest.raises(PlaceError, match="not-mounted: must be a directory that exists"):
        fetch(run, config, print)
    add_checkpoint(run, 10)
    said = []
    fetch(run, config, said.append)
    assert said[0].endswith("continuing from the checkpoint that is here (step 10)")


def test_the_cap_is_for_the_logs_too(url, here, monkeypatch):
    run, config = here
    run.samples.write_bytes(b"x" * 9_000_000)
    add_checkpoint(run, 10)
    mirror, paced = follower(run, config), []
    monkeypatch.setattr(mirror.orders, "pace", paced.append)
    mirror.attempt()
    assert sum(paced) >= 9_000_000


@settings(deadline=None)
@given(st.binary() | st.builds(lambda value: json.dumps(value).encode(), _JSON))
def test_whatever_latest_says_it_is_read_or_refused(text):
    class Place:
        def read(self, key):
            return text, text

    with suppress(PlaceError):
        assert all(copy.position >= (copy.step,) for copy in owner.read(Place()).copies)


@settings(deadline=None)
@given(st.binary() | st.builds(lambda value: json.dumps(value).encode(), _JSON))
def test_whatever_checksums_say_they_name_files_of_their_folder(text):
    with suppress(ValueError):
        assert not any("/" in name or name.startswith(".") for name in read_checksums(text))


def test_no_more_than_the_cap_goes_out_and_a_hurry_lifts_it():
    silent, tell = os.pipe()
    orders = Orders(silent, mb_per_second=4)
    started = time.monotonic()
    for _ in range(4):
        orders.pace(500_000)
    assert time.monotonic() - started >= 0.5
    os.write(tell, b"\n")
    started = time.monotonic()
    orders.pace(100_000_000)
    assert time.monotonic() - started < 5
    assert orders.hurry
    assert not orders.ended
    os.close(tell)
    orders.wait(30)
    assert orders.ended


@pytest.mark.parametrize(
    "mirror", ["/dir", "file://dir", "file://host/dir", "file:///", "s3://", "s3://B", "s3://b", "http://x", "s3://u:p@bucket/x",
               "s3://bucket//x", "file:///d?x=1", ""],
)
def test_urls_that_are_none(tmp_path, mirror):
    with pytest.raises(ConfigError, match="checkpoint_mirror must be a second place for checkpoints"):
        make_run(tmp_path, checkpoint_mirror=mirror)


@pytest.mark.parametrize("mirror", ["{}/runs", "{}/runs/tiny", "{}/runs/tiny/x", "{}/runs/../runs"])
def test_a_mirror_in_the_run_directory_is_none(tmp_path, mirror):
    with pytest.raises(ConfigError, match="checkpoint_mirror must lead away from the run's directory"):
        make_run(tmp_path / "runs", checkpoint_mirror="file://" + mirror.format(tmp_path))


def test_a_cap_without_a_mirror_is_a_mistake(tmp_path):
    with pytest.raises(ConfigError, match="checkpoint_mirror_mb_per_second must be left out without checkpoint_mirror"):
        make_run(tmp_path, checkpoint_mirror_mb_per_second=5)


def test_the_mirror_loads_neither_mxnet_nor_numpy_and_a_folder_needs_no_boto3():
    code = "import sys, trainer.spot.follow, trainer.spot.fetch, trainer.spot.folder, trainer.spot.mirroring; "
    code += "print({'mxnet', 'numpy', 'boto3'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_a_run_without_checkpoints_has_nothing_to_mirror(url, here):
    run, config = here
    assert follower(run, config).attempt()
    assert mirrored_steps(config) == []
