"""The `doctor` command on files of samples and on runs, the doctor inside `train`, and proof by measurement."""

import html
import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest
from doctor_samples import CASES, healthy, slow_disk, starved
from run_logs import start, step, write_run
from test_monitor import TRAINER
from test_train import COMMAND, of_kind, train, write_config

from trainer import lease
from trainer.observe.diagnose import VERDICTS, diagnose
from trainer.observe.diagnose.proof import PROVEN, REFUTED, Measured, proven
from trainer.observe.own_verdict import telling_verdict
from trainer.observe.verdicts import TITLES, full_text, one_line


def doctor(*options, timeout=60):
    return subprocess.run(
        [*COMMAND, "doctor", *map(str, options)], capture_output=True, text=True, timeout=timeout, check=False
    )


def write_samples(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"t": 17')
    return path


def test_a_file_of_samples_as_json(tmp_path):
    done = doctor("--samples", write_samples(tmp_path / "s.jsonl", starved()), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["verdict"] == "input_bound_decode"
    assert list(told["ranked"][0]) == ["verdict", "cost_images_per_second", "confidence"]
    assert told["ranked"][0]["cost_images_per_second"] == pytest.approx(388, abs=1)
    assert told["evidence"]
    assert "decode_threads" in told["advice"]


def test_a_file_of_samples_in_words(tmp_path):
    done = doctor("--samples", write_samples(tmp_path / "s.jsonl", starved()))
    assert done.returncode == 0
    assert done.stdout.startswith("input_bound_decode: the devices wait for data: too few decode threads\n")
    assert "\n  costs 388.1 images/s, confidence 9" in done.stdout
    assert "\n  next: Raise decode_threads from 4 to " in done.stdout
    assert "60 samples over 59 s; 403.9 images/s, 51\u202f% of the roof of 792" in done.stdout


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        ((), 78, "one of --run and --samples must be given, got neither"),
        (("--run", "x", "--samples", "y"), 78, "one of --run and --samples must be given, got both"),
        (("--samples", "/no/such/file"), 66, "--samples must be a file, got /no/such/file"),
        (("--samples", "/"), 66, "--samples must be a readable file, got /"),
        (("--samples", "/dev/null", "--live"), 78, "--live must stand with --run"),
        (("--run", "/no/such/run"), 78, "--run must be the name or the directory of a run"),
    ],
)
def test_what_cannot_be(options, code, complaint):
    done = doctor(*options)
    assert done.returncode == code
    assert complaint in done.stderr


def test_an_empty_file_is_unknown(tmp_path):
    done = doctor("--samples", write_samples(tmp_path / "s.jsonl", []), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["verdict"]) == (0, "unknown")
    assert "no samples" in told["evidence"]


@pytest.mark.parametrize("content", [b"nvidia-smi\n\xff\n", b'[{"t": 1}, {"t": 2}]', b"\n\n"])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "s.jsonl").write_bytes(content)
    done = doctor("--samples", tmp_path / "s.jsonl", "--json")
    assert (done.returncode, done.stdout) == (66, "")
    assert "--samples must hold one JSON object a line" in done.stderr


def test_a_run_that_is_over_is_judged_by_its_last_samples(tmp_path):
    run = write_run(tmp_path / "r", samples=healthy(seconds=40))
    done = doctor("--run", run.directory, "--json")
    assert json.loads(done.stdout)["verdict"] == "device_bound"
    assert done.stderr == ""


@contextmanager
def doctor_beside_a_trainer(run, *options):
    """The doctor's process and that of a trainer which does nothing but hold the run."""
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(run.directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as trainer:
        assert trainer.stdout.readline() == "trains\n"
        command = [*COMMAND, "doctor", "--run", str(run.directory), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
            yield watching, trainer
            trainer.kill()
            watching.kill()


def test_live_until_the_trainer_ends(tmp_path):
    run = write_run(tmp_path / "r", samples=starved())
    with doctor_beside_a_trainer(run, "--live") as (live, trainer):
        line = live.stderr.readline()
        assert line.startswith("r: the devices wait for data: too few decode threads (costs 388.1 images/s, ")
        trainer.kill()
        out, _ = live.communicate(timeout=30)
    assert (live.returncode, out.split(":")[0]) == (0, "input_bound_decode")


def test_live_until_ctrl_c(tmp_path):
    run = write_run(tmp_path / "r", samples=starved())
    with doctor_beside_a_trainer(run, "--live", "--json") as (live, _):
        live.stderr.readline()
        live.send_signal(signal.SIGINT)
        out, _ = live.communicate(timeout=30)
    assert (live.returncode, json.loads(out)["verdict"]) == (0, "input_bound_decode")


def test_a_run_that_has_just_begun_is_watched_until_there_are_enough_samples(tmp_path):
    rows = starved(seconds=12)
    run = write_run(tmp_path / "r", samples=rows[:3])
    with doctor_beside_a_trainer(run) as (waiting, _):
        assert waiting.stderr.readline() == "r: 3 of the 10 samples that a first verdict needs\n"
        with open(run.samples, "a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows[3:])
        out, _ = waiting.communicate(timeout=30)
    assert "12 samples over 11 s" in out


def test_every_verdict_has_words():
    assert set(TITLES) == set(VERDICTS) == set(CASES)
    for case in CASES.values():
        found = diagnose(case())
        assert TITLES[found.verdict] in one_line(found)
        assert all(finding.advice in full_text(found) for finding in found.ranked)


def test_train_tells_its_verdict_once_it_has_trained_an_epoch_and_in_the_report(tiny_recipe):
    run = write_config(tiny_recipe, epochs=2000)
    with subprocess.Popen(
        [*COMMAND, "train", "--config", str(run.config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if line.startswith("doctor: "):
                process.terminate()
                break
        out = process.communicate(timeout=60)[0]
    (told,) = of_kind(run, "verdict")
    assert line == f"doctor: {told['text']}. {told['advice']}\n"
    report = json.loads(run.report_json.read_text())
    assert report["doctor"]["verdict"] in VERDICTS
    assert f"limit: {report['doctor']['text']}\n" in out
    assert report["doctor"]["advice"] in html.unescape(run.report_html.read_text())


def verdicts_of(rows, run, events):
    told = []
    report = telling_verdict(run, lambda kind, **fields: told.append((kind, fields)))
    write_samples(run.samples, rows)
    for event in events:
        fields = {key: value for key, value in event.items() if key not in ("t", "kind")}
        report(event["kind"], **fields)
    assert [kind for kind, _ in told if kind != "verdict"] == [event["kind"] for event in events]
    return [fields for kind, fields in told if kind == "verdict"]


def test_one_verdict_at_the_end_of_the_first_epoch(tmp_path):
    run = write_run(tmp_path / "r")
    events = [start(0), step(1, 90), step(2, 99), step(3, 101), step(4, 201)]
    (told,) = verdicts_of(starved(), run, events)
    assert (told["step"], told["verdict"], told["attained"]) == (101, "input_bound_decode", 0.51)
    assert told["text"].startswith("the devices wait for data")
    validating = {"t": 3, "kind": "validating", "step": 100}
    (told,) = verdicts_of(starved(), run, [start(0), step(1, 90), validating, step(4, 101)])
    assert told["step"] == 100


def test_no_verdict_without_an_epoch_or_without_samples(tmp_path):
    run = write_run(tmp_path / "r")
    assert verdicts_of(starved(), run, [start(0), step(1, 150), step(2, 199)]) == []
    assert verdicts_of([], run, [start(0), step(1, 90), step(2, 101)]) == []


def test_samples_that_break_the_doctor_do_not_break_training(tmp_path, monkeypatch):
    run = write_run(tmp_path / "r")
    monkeypatch.setattr("trainer.observe.own_verdict.diagnose", lambda samples: 1 / 0)
    assert verdicts_of(starved(), run, [start(0), step(1, 90), step(2, 101)]) == []


FEW = Measured(input=400, input_with_twice_the_threads=780, decode_threads=4, network=790)


@pytest.mark.parametrize(
    ("rows", "measured", "confidence"),
    [
        (starved, FEW, PROVEN),
        (starved, replace(FEW, input=1200, input_with_twice_the_threads=2000), REFUTED),
        (starved, replace(FEW, network=None, beside_the_run=True), PROVEN),
        (slow_disk, replace(FEW, input_with_twice_the_threads=405), PROVEN),
        (healthy, replace(FEW, input=1500, input_with_twice_the_threads=2500), PROVEN),
        (healthy, FEW, REFUTED),
    ],
)
def test_measurements_prove_or_refute(rows, measured, confidence):
    found = proven(diagnose(rows()), measured)
    assert found.ranked[0].confidence == confidence
    assert any("the input alone gives" in line for line in found.ranked[0].evidence)
    assert not found.roof_is_estimated


def test_a_measured_network_is_a_roof():
    rows = [{key: value for key, value in row.items() if key != "roof_images_per_second"} for row in starved()]
    found = proven(diagnose(rows), replace(FEW, input=640))
    assert (found.roof_images_per_second, found.roof_is_estimated) == (640, False)


@pytest.mark.slow
def test_proof_on_a_real_run(tiny_recipe):
    """A tiny network on tiny pictures: its input is far faster than it."""
    run = write_config(tiny_recipe, epochs=4)
    assert train(run).returncode == 0
    assert lease.holder(run) is None
    done = doctor("--run", run.directory, "--prove", "--json", timeout=300)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert any("the network alone trains" in line for line in told["evidence"])
    assert told["roof_is_estimated"] is False
    assert of_kind(run, "stop")[-1]["reason"] == "finished"
