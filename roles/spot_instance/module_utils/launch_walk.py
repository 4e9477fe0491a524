"""Offers in turn until one becomes a running instance. Every call is in the journal before AWS hears of it."""

import random
import time
from collections import namedtuple

from ansible.module_utils.launch_errors import UNKNOWN, error_row, in_effect
from ansible.module_utils.launch_journal import is_open, write_journal
from ansible.module_utils.launch_request import launch_parameters, launch_token
from ansible.module_utils.run_look import alive, instance_facts
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

# One try a call: botocore would take "no capacity", an HTTP 500, for a passing fault and ask for minutes.
LAUNCH_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=5, read_timeout=60)
# A call that is to be made again is, after growing, random waits, for at most so long; the deadline counts, too.
PATIENCE_SECONDS = 60
FIRST_PAUSE_SECONDS = 1.0
START_SECONDS = 300

# ec2 calls and retries by itself, launcher does not; user_data as in launch_request.py; deadline in unix seconds.
Launch = namedtuple("Launch", "ec2 launcher region run journal_path user_data deadline shown_seconds")


class Stopped(Exception):
    """No other offer may or can be tried."""


def settle(launch, journal):
    """The running instance of the last launch when nobody knows what became of it: by its token, or by repeating it.

    None when there is nothing to settle, or when AWS says that it launched nothing. Stopped: as in make_true().
    """
    if "token" not in journal:
        return None
    if rows := list(alive(launch.ec2, _token_filter(journal))):
        return running(launch.ec2, launch.region, rows[0]["InstanceId"])[0]
    return make_true(launch, journal)[0] if is_open(journal, launch.shown_seconds) else None


def walk(launch, journal, offers, place_of, wanted):
    """(the running instance's facts or {}, [what was tried and why it failed]).

    offers: each with a zone; place_of(offer) and wanted: see launch_request.py.
    Stopped: no other offer can help, or it is not known what became of the last call.
    """
    tried, attempt = [], journal.get("attempt", 0)
    for offer in offers:
        if time.time() >= launch.deadline:
            break
        if _key(offer) in [_key(row) for row in tried if row["step"] == "region"]:
            continue
        parameters, step = launch_parameters(offer, place_of(offer), wanted), "anew"
        while step == "anew" and time.time() < launch.deadline:
            attempt += 1
            entry = _entry(launch, attempt, offer, parameters)
            write_journal(launch.journal_path, entry)
            facts, code, message = make_true(launch, entry)
            if facts:
                return facts, tried
            step = error_row(code).step
            tried.append(_told(offer, code, message))
    return {}, tried


def make_true(launch, entry):
    """(the running instance's facts, "", ""), or (None, code, message): then the entry is closed.

    Carries out the launch of a journal's entry; one that was carried out before is found again by its token.
    """
    row, code, message = _ask(launch, entry)
    if row:
        facts, code, message = running(launch.ec2, launch.region, row["InstanceId"])
        if facts:
            return facts, "", ""
    elif code == "IdempotentParameterMismatch" and (facts := _by_token(launch, entry)):
        return facts, "", ""
    step = error_row(code).step
    if step == "again":
        raise Stopped(f"{code}: {message}; it is not known whether it launched. Run again: the same call is repeated")
    write_journal(launch.journal_path, {"attempt": entry["attempt"]})
    if step == "stop":
        raise Stopped(f"{code}: {message} ({error_row(code).meaning})")
    return None, code, message


def in_full(error):
    """What botocore raised, with what it means where that is known."""
    code, message = told_error(error)
    meaning = error_row(code).meaning
    return f"{code}: {message}" if error_row(code) is UNKNOWN else f"{code}: {message} ({meaning})"


def _key(offer):
    return offer["region"], offer["market"], offer["instance_type"]


def _entry(launch, attempt, offer, parameters):
    token = launch_token(launch.run, attempt, parameters | {"UserData": launch.user_data})
    facts = {key: offer[key] for key in ("region", "zone", "instance_type", "market", "price_usd_per_hour")}
    return {
        "attempt": attempt, "region": launch.region, "token": token, "offer": facts, "at": time.time(),
        "parameters": parameters,
    }  # fmt: skip


def _told(offer, code, message):
    row = error_row(code)
    told = {key: offer[key] for key in ("region", "zone", "instance_type", "market")}
    return told | {"step": row.step, "code": code, "meaning": row.meaning, "message": message}


def _ask(launch, entry):
    """(the instance's row, "", "") or (None, code, message). What is to be asked again is, with patience."""
    end, pause = min(launch.deadline, time.time() + PATIENCE_SECONDS), FIRST_PAUSE_SECONDS
    arguments = entry["parameters"] | {"UserData": launch.user_data, "ClientToken": entry["token"]}
    while True:
        try:
            return launch.launcher.run_instances(**arguments)["Instances"][0], "", ""
        except (BotoCoreError, ClientError) as error:
            code, message = told_error(error)
        if error_row(code).step not in ("wait", "again") or time.time() + pause > end:
            return None, code, message
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(10.0, pause * 2)


def told_error(error):
    """(code, message) of what botocore raised."""
    if isinstance(error, ClientError):
        told = error.response["Error"]
        return in_effect(told["Code"], told.get("Message", "")), told.get("Message", "")
    return "NoCredentials" if isinstance(error, NoCredentialsError) else "NoAnswer", str(error)


def _by_token(launch, entry):
    """The running instance that AWS made for the entry's token, waiting until it would be shown; None without one."""
    while True:
        rows = list(alive(launch.ec2, _token_filter(entry)))
        if rows:
            return running(launch.ec2, launch.region, rows[0]["InstanceId"])[0]
        if time.time() >= min(launch.deadline, entry["at"] + launch.shown_seconds):
            return None
        time.sleep(1)


def _token_filter(entry):
    return [{"Name": "client-token", "Values": [entry["token"]]}]


def running(ec2, region, instance_id):
    """(facts, "", "") once it runs and has its address; (None, code, message) when it ended instead.

    Stopped: it did neither in time.
    """
    end, row = time.time() + START_SECONDS, None
    while time.time() < end:
        row = _described(ec2, instance_id) or row
        state = row["State"]["Name"] if row else "not shown yet"
        if state in ("shutting-down", "terminated"):
            reason = row.get("StateReason", {})
            message = f"{instance_id} ended: {reason.get('Message', 'AWS tells no reason')}"
            return None, reason.get("Code", "unknown"), message
        if state == "running" and (row.get("PublicIpAddress") or not _gets_public_address(ec2, row)):
            return instance_facts(region, row), "", ""
        time.sleep(1)
    raise Stopped(f"{instance_id} does not run after {START_SECONDS} s: it is {state}")


def _gets_public_address(ec2, row):
    """Whether its subnet gives one to what is launched in it: it comes a little later than the private one."""
    found = ec2.describe_subnets(SubnetIds=[row["SubnetId"]])["Subnets"] if row.get("SubnetId") else []
    return any(subnet["MapPublicIpOnLaunch"] for subnet in found)


def _described(ec2, instance_id):
    """The instance's row; None while AWS does not show it."""
    try:
        return ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]
    except ClientError as error:
        if error.response["Error"]["Code"] == "InvalidInstanceID.NotFound":
            return None
        raise
    except IndexError:
        return None
