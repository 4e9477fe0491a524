"""The metadata service of one instance: who it is, its role's credentials, and the notice that it is taken back."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from trainer.spot.imds import NOTICE
from trainer.spot.practice import Practice

_DATA = "/latest/meta-data"
_ROLES = f"{_DATA}/iam/security-credentials/"


def metadata(instance: dict[str, Any]) -> Practice:
    """Answers for a row of the double's `machines`."""
    service = Practice()
    document = {"instanceId": instance["id"], "region": instance["region"], "availabilityZone": instance["zone"]}
    answers = {
        f"{_DATA}/instance-id": instance["id"],
        f"{_DATA}/instance-type": instance["instance_type"],
        f"{_DATA}/placement/availability-zone": instance["zone"],
        f"{_DATA}/placement/region": instance["region"],
        "/latest/dynamic/instance-identity/document": json.dumps(document),
    }
    if role := instance["role"]:
        answers |= {_ROLES: role, f"{_ROLES}{role}": json.dumps(_credentials())}
    service.answers |= {path: (200, text.encode()) for path, text in answers.items()}
    return service


def give_notice(service: Practice, seconds: float) -> None:
    """AWS gives two minutes; a rehearsal may have less time."""
    gone = datetime.now(UTC) + timedelta(seconds=seconds)
    notice = {"action": "terminate", "time": f"{gone:%Y-%m-%dT%H:%M:%SZ}"}
    service.answers[NOTICE] = 200, json.dumps(notice).encode()


def _credentials() -> dict[str, str]:
    """In the form that AWS gives a role's; the double takes any."""
    now = datetime.now(UTC)
    return {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "LastUpdated": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "Expiration": f"{now + timedelta(hours=6):%Y-%m-%dT%H:%M:%SZ}",
        "AccessKeyId": "ASIAOFTHEDOUBLE",
        "SecretAccessKey": "secret-of-the-double",
        "Token": "token-of-the-double",
    }
