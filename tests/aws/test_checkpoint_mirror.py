"""Role checkpoint_mirror against the double of AWS."""

import hashlib
import json
import os
import subprocess

import boto3
import pytest
from permissions import allowed
from volume_plays import recap
from volume_steps import load, look

from tests.fakes.aws.clients import client, code_of
from tests.roles.playing import TOOLS, environment, program
from trainer.spot.mirror import PART_BYTES, Bucket

MARKET = {"regions": {"us-east-1": {}, "us-west-2": {}}}
SETTINGS = {"checkpoint_mirror_run": "r1", "checkpoint_mirror_region": "us-west-2"}
BUCKET = "trainer-123456789012-us-west-2"


def s3():
    return client(os.environ["AWS_ENDPOINT_URL"], "s3", "us-west-2")


def iam():
    return client(os.environ["AWS_ENDPOINT_URL"], "iam")


def play_role(folder, point, *options, hosts=("trainer-1",), **settings):
    inventory, playbook = folder / "hosts.json", folder / "play.json"
    named = hosts if isinstance(hosts, dict) else dict.fromkeys(hosts)
    inventory.write_text(json.dumps({"trainers": {"hosts": named}}))
    tasks = [{"name": "Role", "ansible.builtin.import_role": {"name": "checkpoint_mirror", "tasks_from": point}}]
    show = {"name": "Show", "ansible.builtin.debug": {"var": "checkpoint_mirror_found"}}
    play = {
        "hosts": "trainers", "connection": "local", "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "tasks": tasks + ([show] if point == "main" else []),
    }
    playbook.write_text(json.dumps([play]))
    wanted = SETTINGS | {"checkpoint_mirror_directory": str(folder / "run")} | settings
    command = [TOOLS / "ansible-playbook", playbook, "-i", inventory, "-e", json.dumps(wanted), *options]
    return subprocess.run(
        command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
        check=False,
    )


def keys():
    return [row["Key"] for row in s3().list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def test_a_bucket_and_a_profile_are_made_once_and_removed_once(aws, calls, tmp_path, monkeypatch):
    """The calls of all plays together are what docs/iam/mirror.json allows, no more and no less.

    The instance may do what the trainer's mirror does on its run, and nothing else.
    """
    ours = []

    def played(point, *options, **settings):
        seen = len(calls())
        done = play_role(tmp_path, point, *options, **settings)
        ours.extend(calls()[seen:])
        assert done.returncode == 0, done.stdout
        return done

    with aws(MARKET, "mirror"):
        iam().list_roles()
        assert "changed=0" not in recap(played("main", "--check"))
        assert s3().list_buckets()["Buckets"] == [] and iam().list_roles()["Roles"] == []

        told = played("main").stdout
        assert f"url: s3://{BUCKET}/runs" in told and "instance_profile: trainer-r1" in told
        check_bucket()
        check_profile()
        policy = statements()
        assert keys() == ["runs/r1/"]
        assert (tmp_path / "run/second-place").read_text() == f"s3://{BUCKET}/runs\n"
        assert "changed=0" in recap(played("main"))

        for run in ("r1", "r10"):
            s3().put_object(Bucket=BUCKET, Key=f"runs/{run}/LATEST", Body=b"{}")
        s3().create_multipart_upload(Bucket=BUCKET, Key="runs/r1/broke-off")
        check_fetch(played, tmp_path)
        told = played("retire").stdout
        assert "keeps 1 files" in " ".join(told.split())
        assert iam().list_roles()["Roles"] == [] and iam().list_instance_profiles()["InstanceProfiles"] == []
        assert keys() == ["runs/r1/", "runs/r1/LATEST", "runs/r10/LATEST"]

        played("retire", checkpoint_mirror_keep=False)
        assert keys() == ["runs/r10/LATEST"]
        s3().delete_object(Bucket=BUCKET, Key="runs/r10/LATEST")
        assert "changed=1" in recap(played("retire", checkpoint_mirror_keep=False))
        assert s3().list_buckets()["Buckets"] == []
        # Nothing is there any more, as before a run.
        assert "changed=0" in recap(played("retire", checkpoint_mirror_keep=False))
    used = {action for call in ours for action in call["iam"]}
    assert used == allowed("mirror")
    check_instance_policy(aws, calls, policy, tmp_path, monkeypatch)


def check_fetch(played, folder):
    """What is here already is not brought, and a model of an older checkpoint is written anew."""
    here, trainer = folder / "here", program(folder / "trainer", f'echo "$@" >>{folder}/asked')
    here.mkdir()
    for name, at in (("model.json", 100), ("LATEST", 200)):
        (here / name).write_text("{}")
        os.utime(here / name, (at, at))
    settings = {"checkpoint_mirror_directory": str(here), "__checkpoint_mirror_trainer": [str(trainer)]}
    assert "changed=1" in recap(played("fetch", **settings))
    assert (folder / "asked").read_text().split() == ["export", "--run", str(here), "report", "--run", str(here)]
    os.utime(here / "model.json", (300, 300))
    (here / "report.json").write_text("{}")
    assert "changed=0" in recap(played("fetch", **settings))


def check_instance_policy(aws, calls, policy, folder, monkeypatch):
    """The double judges each call of a mirror by the policy that the role was given."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    with aws(MARKET | {"policies": {"double": [{"Statement": list(policy.values())}]}}):
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
        s3().create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        seen = len(calls())
        mirror_a_run(Bucket(BUCKET, "runs/r1"), folder)
        used = {action for call in calls()[seen:] for action in call["iam"]}
        other = boto3.client("s3")
        for what in (
            {"Key": "runs/r10/LATEST"}, {"Key": "runs/r1"}, {"Key": "ledger"},
        ):
            assert code_of(other.put_object, Bucket=BUCKET, Body=b"", **what) == "AccessDenied"
        assert code_of(other.list_objects_v2, Bucket=BUCKET, Prefix="runs/r10/") == "AccessDenied"
        assert code_of(other.delete_bucket, Bucket=BUCKET) == "AccessDenied"
    actions = [row["Action"] for row in policy.values()]
    assert used == {action for one in actions for action in ([one] if isinstance(one, str) else one)}
    assert all(row["Effect"] == "Allow" for row in policy.values())


def check_bucket():
    access = s3().get_public_access_block(Bucket=BUCKET)["PublicAccessBlockConfiguration"]
    assert len(access) == 4 and all(access.values())
    rules = s3().get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rules[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    [rule] = s3().get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]
    assert (rule["Status"], rule["AbortIncompleteMultipartUpload"]) == ("Enabled", {"DaysAfterInitiation": 1})
    assert s3().get_bucket_location(Bucket=BUCKET)["LocationConstraint"] == "us-west-2"


def check_profile():
    [profile] = iam().list_instance_profiles()["InstanceProfiles"]
    [role] = profile["Roles"]
    assert (profile["InstanceProfileName"], role["RoleName"]) == ("trainer-r1", "trainer-r1")
    trust = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust == [
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
    ]
    assert iam().list_attached_role_policies(RoleName="trainer-r1")["AttachedPolicies"] == []


def statements():
    """The run's policy, by statement."""
    document = iam().get_role_policy(RoleName="trainer-r1", PolicyName="checkpoints")["PolicyDocument"]
    return {row["Sid"]: row for row in document["Statement"]}


def mirror_a_run(bucket, folder):
    """Every call of the mirror: small and large files, an upload that broke off, the way back, what is given up."""
    large = os.urandom(PART_BYTES + 1)
    (folder / "large").write_bytes(large)
    (folder / "small").write_bytes(b"small")
    for name, data in (("large", large), ("small", b"small")):
        with open(folder / name, "rb") as file:
            bucket.put(f"checkpoints/a/{name}", file, hashlib.sha256(data).hexdigest(), lambda size: None)
    bucket.copy("events.jsonl", folder / "small", lambda size: None)
    tag = bucket.swap("LATEST", b"{}", None)
    bucket.swap("LATEST", b"[]", tag)
    assert bucket.read("LATEST")[0] == b"[]"
    assert bucket.sizes("checkpoints/a") == {"checkpoints/a/large": len(large), "checkpoints/a/small": 5}
    bucket.get("checkpoints/a/large", folder / "back")
    assert (folder / "back").read_bytes() == large
    unfinished = s3().create_multipart_upload(Bucket=BUCKET, Key="runs/r1/checkpoints/b/large")
    assert unfinished["UploadId"]
    bucket.keep_only([])
    assert bucket.sizes("checkpoints") == {}


BAD = [
    ({"own_run": "*"}, '"_" and "-", got "*"'), ({"own_run": ""}, 'digits, ".", "_" and "-", got ""'),
    ({"own_bucket": "not-there"}, "Failed to list s3://not-there/runs/r1/"),
    (
        {"own_directory": "moved"},
        "The checkpoints of r1 are in s3://trainer-123456789012-eu-west-1/runs (moved/second-place), and in "
        f"s3://{BUCKET}/runs it would begin anew. -e checkpoint_mirror_region=eu-west-1 and",
    ),
]


def test_bad_settings_are_an_error_in_words_before_anything_is_made(aws, calls, tmp_path):
    """One play, and each of its hosts has a setting of its own."""
    hosts = {f"trainer-{number}": settings for number, (settings, _) in enumerate(BAD)}
    own = {
        "checkpoint_mirror_run": "{{ own_run | default('r1') }}",
        "checkpoint_mirror_bucket": "{{ own_bucket | default('') }}",
        "checkpoint_mirror_directory": "{{ own_directory | default('run') }}",
    }
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved/second-place").write_text("s3://trainer-123456789012-eu-west-1/runs\n")
    with aws(MARKET):
        done = play_role(tmp_path, "main", hosts=hosts, **own)
    assert done.returncode == 2
    told = " ".join(done.stdout.split())
    for number, (_, message) in enumerate(BAD):
        assert message in told.split(f"fatal: [trainer-{number}]: ")[1].split("fatal: ")[0], done.stdout
    assert {call["action"] for call in calls()} <= {"GetCallerIdentity", "ListAccountAliases", "ListObjectsV2"}


@pytest.mark.slow
def test_without_a_run_s_name_nothing_is_retired(aws, tmp_path):
    with aws(MARKET):
        done = play_role(tmp_path, "retire", checkpoint_mirror_run="")
    assert done.returncode == 2 and 'digits, ".", "_" and "-", got ""' in " ".join(done.stdout.split())


@pytest.mark.slow
def test_a_bucket_of_one_s_own_is_taken_as_it_is_and_stays(aws, tmp_path):
    own = {"checkpoint_mirror_bucket": "mine", "checkpoint_mirror_keep": False}
    with aws(MARKET):
        s3().create_bucket(Bucket="mine", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        done = play_role(tmp_path, "main", **own)
        assert "url: s3://mine/runs" in done.stdout, done.stdout
        assert statements()["ItsOwnRun"]["Resource"] == "arn:aws:s3:::mine/runs/r1/*"
        assert code_of(s3().get_bucket_lifecycle_configuration, Bucket="mine") == "NoSuchLifecycleConfiguration"
        assert play_role(tmp_path, "retire", **own).returncode == 0
        assert [row["Name"] for row in s3().list_buckets()["Buckets"]] == ["mine"]


run_objects = load("run_objects", "checkpoint_mirror")
OBJECTS = {"bucket": BUCKET, "region": "us-west-2", "state": "absent"}


@pytest.mark.parametrize("prefix", ["", "/", "runs/", "runs//", "/r1/", "runs/ /", "runs/r1"])
def test_a_prefix_without_a_run_deletes_nothing(aws, calls, capsys, prefix):
    with aws(MARKET):
        s3().list_buckets()
        assert "prefix must be" in look(run_objects, capsys, OBJECTS | {"prefix": prefix})["msg"]
    assert [call["action"] for call in calls()] == ["ListBuckets"]


mirrored_logs = load("mirrored_logs", "checkpoint_mirror")
LATEST = {"copies": [{"name": "00000900-2", "step": 900}, {"name": "00000600-1", "step": 600}]}


@pytest.mark.parametrize(
    ("latest", "here", "is_behind"),
    [
        (LATEST, None, True), (LATEST, "00000600-1\n", True), (LATEST, "00000900-2\n", False),
        ({"copies": []}, None, False), (None, None, False),
    ],
)  # fmt: skip
def test_the_newest_checkpoint_says_whether_this_side_is_behind(aws, capsys, tmp_path, latest, here, is_behind):
    """However much of the logs has come here from the machine itself. Settings are those of the second place."""
    (tmp_path / "events.jsonl").write_text("newer than over there\n")
    (tmp_path / "config.toml").write_text("one that is longer\n")
    if here:
        (tmp_path / "LATEST").write_text(here)
    files = {"config.toml": b"other\n", "events.jsonl": b"{}\n"} | ({"LATEST": json.dumps(latest)} if latest else {})
    asked = {"bucket": BUCKET, "region": "us-west-2", "prefix": "runs/r1/", "directory": str(tmp_path),
             "names": ["config.toml", "events.jsonl"]}  # fmt: skip
    with aws(MARKET):
        s3().create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        for name, body in files.items():
            s3().put_object(Bucket=BUCKET, Key=f"runs/r1/{name}", Body=body)
        told = look(mirrored_logs, capsys, asked)
        again = look(mirrored_logs, capsys, asked)
    assert (told["is_behind"], told["newest"].get("step")) == (is_behind, 900 if latest == LATEST else None)
    assert (told["changed"], again["changed"]) == (True, False)
    assert (tmp_path / "config.toml").read_text() == "other\n"
    assert (tmp_path / "events.jsonl").read_text() == "newer than over there\n"


bucket_lifecycle = load("bucket_lifecycle", "checkpoint_mirror")


def test_the_rule_for_uploads_is_added_to_those_that_are_there(aws, capsys):
    rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 9}}
    asked = {"bucket": BUCKET, "region": "us-west-2", "abort_uploads_days": 1}
    with aws(MARKET):
        s3().create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        s3().put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": [rule]})
        assert look(bucket_lifecycle, capsys, asked, check=True)["changed"]
        assert len(s3().get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]) == 1
        assert look(bucket_lifecycle, capsys, asked)["changed"]
        assert not look(bucket_lifecycle, capsys, asked)["changed"]
        rules = s3().get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]
        assert [row["ID"] for row in rules] == ["old", "end-unfinished-uploads"]
