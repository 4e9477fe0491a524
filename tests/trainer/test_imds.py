"""Notices that a spot machine is to be taken away."""

import json
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from fakes.imds import Faulty, dripping
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer.config import Config
from trainer.spot import imds
from trainer.spot.practice import serving
from trainer.spot.stop import StopRequest


class Reports(list):
    def __call__(self, kind, **fields):
        self.append({"kind": kind, **fields})

    def of(self, kind):
        return [event for event in self if event["kind"] == kind]


@pytest.fixture
def service():
    with serving(Faulty()) as faulty:
        yield faulty
        faulty.over.set()


@pytest.fixture
def reports():
    return Reports()


@pytest.fixture
def stop():
    return StopRequest()


@pytest.fixture
def watch(service, stop, reports):
    return imds.Watch(imds.Metadata(service.url), stop, reports)


def test_nothing_to_tell_is_no_error(watch, stop, reports):
    watch.poll()
    assert not stop
    assert reports == []


@pytest.mark.parametrize("action", ["terminate", "stop", "hibernate"])
def test_a_notice_asks_to_stop_and_says_until_when(service, watch, stop, reports, action):
    service.give_notice(action)
    watch.poll()
    assert stop.reason == "notice"
    assert stop.deadline - time.monotonic() == pytest.approx(120, abs=3)
    assert [(event["kind"], event["action"], event["source"]) for event in reports] == [("notice", action, "imds")]


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        (lambda now: f"{now + timedelta(seconds=60):%Y-%m-%dT%H:%M:%SZ}", 60),
        (lambda now: f"{now - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}", 120),
        (lambda now: f"{now + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}", 120),  # a clock that is wrong
        (lambda now: "soon", 120),
        (lambda now: f"{now:%Y-%m-%dT%H:%M:%S}", 120),  # of which zone?
        (lambda now: 17, 120),
        (lambda now: None, 120),
    ],
)
def test_a_notice_is_one_whatever_its_time(service, watch, stop, moment, seconds):
    body = {"action": "terminate", "time": moment(datetime.now(UTC))}
    service.answers[imds.NOTICE] = 200, json.dumps(body).encode()
    watch.poll()
    assert stop.reason == "notice"
    assert stop.deadline - time.monotonic() == pytest.approx(seconds, abs=3)


@pytest.mark.parametrize(
    "answer",
    [(200, b"terminate"), (200, b""), (200, b"[]"), (200, b"{}"), (200, b'{"action": 3}'), (200, b"\xff"), (500, b""),
     (403, b""), (302, b""), (204, b"")],
)  # fmt: skip
def test_other_answers_are_no_notice_and_told_once_a_change(service, watch, stop, reports, answer):
    service.answers[imds.NOTICE] = answer
    for _ in range(3):
        watch.poll()
    assert not stop
    assert [(event["ok"], event["errors"]) for event in reports.of("imds")] == [(False, 1)]
    assert imds.NOTICE in reports[0]["reason"]
    del service.answers[imds.NOTICE]
    watch.poll()
    assert [(event["ok"], event["errors"]) for event in reports.of("imds")] == [(False, 1), (True, 3)]
    service.give_notice()
    watch.poll()
    assert stop.reason == "notice"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=60) | st.recursive(st.none() | st.text(), lambda inner: st.dictionaries(
    st.sampled_from(["action", "time", "x"]), inner)).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_no_body_ends_the_watching(service, body):
    service.answers[imds.NOTICE] = service.answers[imds.REBALANCE] = 200, body
    stop = StopRequest()
    imds.Watch(imds.Metadata(service.url), stop, Reports()).poll()
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    assert bool(stop) == (isinstance(value, dict) and isinstance(value.get("action"), str))


def test_a_token_serves_many_calls_and_is_renewed_when_refused_or_old(service, watch, stop, monkeypatch):
    watch.poll()
    watch.poll()
    assert service.tokens_given == 1
    service.tokens.clear()  # the service was restarted
    watch.poll()
    assert service.tokens_given == 2
    monkeypatch.setattr(watch._metadata, "_renew_at", time.monotonic())
    watch.poll()
    assert service.tokens_given == 3
    service.tokens.clear()
    service.give_notice()
    watch.poll()
    assert stop.reason == "notice"


@pytest.mark.parametrize("answer", [(403, b""), (404, b""), (200, b"no\ntoken"), (200, b"wrong")])
def test_no_token_is_an_error(service, watch, stop, reports, answer):
    service.give_notice()
    service.token_answer = answer
    watch.poll()
    assert not stop
    assert reports.of("imds")[0]["ok"] is False
    service.token_answer = None
    watch.poll()
    assert stop.reason == "notice"


def test_a_rebalance_recommendation_asks_for_a_checkpoint_once(service, watch, stop, reports):
    for moment in ("2030-01-01T00:00:00Z", "2030-01-01T01:00:00Z"):
        service.answers[imds.REBALANCE] = 200, json.dumps({"noticeTime": moment}).encode()
        watch.poll()
        assert stop.take_save() is True
        watch.poll()
        assert stop.take_save() is False
    assert [event["time"] for event in reports.of("rebalance")] == ["2030-01-01T00:00:00Z", "2030-01-01T01:00:00Z"]
    assert not stop


def test_a_notice_is_seen_beside_a_broken_recommendation(service, watch, stop, reports):
    service.answers[imds.REBALANCE] = 500, b""
    service.give_notice()
    watch.poll()
    assert stop.reason == "notice"
    assert reports.of("imds")[0]["errors"] == 1


def test_a_silent_service_costs_the_time_limit_and_no_more(service, watch, stop, reports, monkeypatch):
    monkeypatch.setattr(imds, "CALL_SECONDS", 0.1)
    service.silent.set()
    started = time.monotonic()
    watch.poll()
    assert time.monotonic() - started < 2
    assert "no answer within 0.1 s" in reports.of("imds")[0]["reason"]


def test_a_service_that_answers_byte_by_byte_costs_the_time_limit_and_no_more(stop, reports, monkeypatch):
    monkeypatch.setattr(imds, "CALL_SECONDS", 0.2)
    with dripping(seconds_a_byte=0.02) as url:
        started = time.monotonic()
        imds.Watch(imds.Metadata(url), stop, reports).poll()
        assert time.monotonic() - started < 3
    assert reports.of("imds")[0]["ok"] is False


def test_nobody_there_is_told(stop, reports):
    with serving(Faulty()) as gone:
        pass
    imds.Watch(imds.Metadata(gone.url), stop, reports).poll()
    assert "refused" in reports.of("imds")[0]["reason"]


def test_proxies_are_not_asked(service, watch, stop, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    service.give_notice()
    watch.poll()
    assert stop.reason == "notice"


def test_a_log_that_cannot_be_written_hides_no_notice(service, stop):
    def full_disk(kind, **fields):
        raise OSError("no space left")

    service.answers[imds.REBALANCE] = 500, b""
    service.give_notice()
    watch = imds.Watch(imds.Metadata(service.url), stop, full_disk)
    watch.poll()
    assert stop.reason == "notice"


def test_watching_goes_on_in_the_background(service, stop, monkeypatch):
    monkeypatch.setattr(imds, "POLL_SECONDS", 0.01)
    came = threading.Event()
    with imds.watching(service.url, stop, lambda kind, **fields: came.set()):
        service.answers[imds.NOTICE] = 500, b""
        assert came.wait(10)
        came.clear()
        service.give_notice()
        assert came.wait(10)
    assert stop.reason == "notice"


def test_without_an_address_nobody_is_asked(stop):
    before = threading.active_count()
    with imds.watching(None, stop, Reports()):
        assert threading.active_count() == before


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("http://169.254.169.254", True), ("http://[fd00:ec2::254]", True), ("http://localhost:1338", True),
        ("https://169.254.169.254", False), ("169.254.169.254", False), ("http://x/latest", False),
        ("http://x:port", False), ("http://", False), ("http://a@b", False), ("", False), (3, False),
    ],
)  # fmt: skip
def test_the_address_is_checked(url, good):
    from pydantic import ValidationError

    values = {
        "run_directory": "r", "data_train": "t.rec", "num_classes": 2, "epochs": 1, "batch_size": 1, "imds_url": url
    }  # fmt: skip
    if good:
        assert Config.model_validate(values).imds_url == url
    else:
        with pytest.raises(ValidationError, match="imds_url"):
            Config.model_validate(values)
