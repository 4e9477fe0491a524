"""One HTTP request as an AWS call: service, region, action, parameters; and errors in the words of its protocol."""

import io
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from moto.core.request import Request
from moto.core.routing import get_service_router
from werkzeug.wrappers import Response

STATUS = {
    "AuthFailure": 401,
    "AccessDenied": 403,
    "AccessDeniedException": 403,
    "UnauthorizedOperation": 403,
    "InsufficientInstanceCapacity": 500,
    "InsufficientHostCapacity": 500,
    "InternalError": 500,
    "InternalFailure": 500,
    "RequestLimitExceeded": 503,
    "SlowDown": 503,
    "ServiceUnavailable": 503,
    "Unavailable": 503,
}

# The names that IAM has for what S3 calls otherwise, and what a call needs beside its own name.
S3_NAMES = {
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "CopyObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "DeleteObjects": "DeleteObject",
    "ListBuckets": "ListAllMyBuckets",
    "ListObjectVersions": "ListBucketVersions",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListParts": "ListMultipartUploadParts",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "DeleteBucketTagging": "PutBucketTagging",
    "GetBucketAccelerateConfiguration": "GetAccelerateConfiguration",
    "GetBucketNotificationConfiguration": "GetBucketNotification",
    "GetObjectLockConfiguration": "GetBucketObjectLockConfiguration",
    "ListBucketInventoryConfigurations": "GetInventoryConfiguration",
}
UNLOGGED = {"Action", "Version", "UserData", "PublicKeyMaterial"}


@dataclass
class Call:
    service: str
    region: str
    action: str
    parameters: dict[str, Any] = field(default_factory=dict)
    caller: str = ""  # the access key that signed it

    def iam_actions(self) -> list[str]:
        """The permissions that IAM asks for."""
        name = S3_NAMES.get(self.action, self.action) if self.service == "s3" else self.action
        needed = [f"{self.service}:{name}"]
        if self.service == "ec2" and self._has("TagSpecification"):
            needed.append("ec2:CreateTags")
        if self.action == "CreateRole" and self._has("Tags."):
            needed.append("iam:TagRole")
        if self.action == "AddRoleToInstanceProfile" or self._has("IamInstanceProfile."):
            needed.append("iam:PassRole")
        return needed

    def _has(self, prefix: str) -> bool:
        return any(key.startswith(prefix) for key in self.parameters)


def read_call(environ: dict[str, Any]) -> Call:
    """The call in a WSGI request, whose body can still be read afterwards. Unsigned requests count as S3's."""
    caller, region, service = _scope(environ.get("HTTP_AUTHORIZATION", ""))
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return Call(service, region, target.split(".")[-1], _json_body(environ), caller)
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        form = dict(parse_qsl(_body(environ), keep_blank_values=True))
        told = {key: value for key, value in form.items() if key not in UNLOGGED}
        return Call(service, region, form.get("Action", ""), told, caller)
    return Call(service, region, _rest_action(service, environ), _rest_parameters(environ), caller)


def _scope(authorization: str) -> tuple[str, str, str]:
    """(access key, region, service)."""
    try:
        caller, _, region, service, _ = authorization.split("Credential=")[1].split(",")[0].split("/")
    except (IndexError, ValueError):
        return "", "us-east-1", "s3"
    return caller, region, service


def _rest_parameters(environ: dict[str, Any]) -> dict[str, Any]:
    """keys: what a deletion of several objects names."""
    query = environ.get("QUERY_STRING", "")
    is_deletion = environ["REQUEST_METHOD"] == "POST" and query.startswith("delete")
    keys = re.findall(r"<Key>(.*?)</Key>", _body(environ)) if is_deletion else []
    return {"path": environ.get("PATH_INFO", ""), "query": query, "keys": keys}


def _body(environ: dict[str, Any]) -> str:
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body.decode()


def _json_body(environ: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(json.loads(_body(environ) or "{}"))
    except ValueError:
        return {}


def _rest_action(service: str, environ: dict[str, Any]) -> str:
    try:
        operation, _ = get_service_router(service).match(Request(environ))
        return operation.name
    except Exception:  # whatever the router says: it is no call that the service has
        return environ["REQUEST_METHOD"]


def error_response(call: Call, code: str, message: str) -> Response:
    """The error as the service would say it."""
    status = STATUS.get(code, 400)
    if call.service == "ec2":
        error = f"<Error>{_xml(code, message)}</Error>"
        body = f"<Response><Errors>{error}</Errors><RequestID>double</RequestID></Response>"
    elif call.service == "s3":
        body = f"<Error>{_xml(code, message)}</Error>"
    elif call.service in ("iam", "sts"):
        body = f"<ErrorResponse><Error>{_xml(code, message)}</Error><RequestId>double</RequestId></ErrorResponse>"
    else:
        body = json.dumps({"__type": code, "message": message})
        return Response(body, status, {"x-amzn-errortype": code}, content_type="application/x-amz-json-1.1")
    return Response(body, status, content_type="text/xml")


def _xml(code: str, message: str) -> str:
    return f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
