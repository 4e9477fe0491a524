"""boto3 clients of a double."""

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError


def client(endpoint: str, service: str = "ec2", region: str = "us-east-1", attempts: int = 1, timeout: int = 10) -> Any:
    """A client that tries a call so many times, and may do everything (the scenario's policies are for others)."""
    return boto3.client(
        service,
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id="owner",
        aws_secret_access_key="double",
        config=Config(retries={"total_max_attempts": attempts, "mode": "standard"}, read_timeout=timeout),
    )


def code_of(call: Any, *arguments: Any, **options: Any) -> str:
    """The error code that the call earns; "" when it works."""
    try:
        call(*arguments, **options)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""
