"""What a launch's error means: try the next zone, the next region, the same again after a while, or stop. Pure.

Sources: "doc" is AWS's "Error codes for the Amazon EC2 API"; "state" is the API reference's StateReason, for instances
that ended while they started; others are reports of people who met the error.
"""

from collections import namedtuple

# zone: this offer cannot be had now, the next one may. region: this type and market cannot be had in this region.
# wait: refused for a moment; the same call again, then the next zone. again: perhaps carried out; the same call again,
# and no other before AWS has said what became of it. anew: the same offer with another token. stop: no offer can help.
Row = namedtuple("Row", "step meaning source")

NO_CAPACITY = "no capacity in this zone"
QUOTA = "the account's quota in this region is used up or 0; ask AWS to raise it (Service Quotas)"
NOT_ENABLED = "the region is not enabled, or not allowed, for this account"
CREDENTIALS = "the credentials have expired or are wrong; renew them and run again"
NOT_YET = "AWS does not know yet what was just made"

ERRORS = {
    "InsufficientInstanceCapacity": Row("zone", NO_CAPACITY, "doc"),
    "InsufficientHostCapacity": Row("zone", NO_CAPACITY, "doc"),
    "InsufficientCapacity": Row("zone", NO_CAPACITY, "doc"),
    "InsufficientReservedInstanceCapacity": Row("zone", NO_CAPACITY, "doc"),
    "UnfulfillableCapacity": Row("zone", NO_CAPACITY, "doc; aws/aws-parallelcluster-node#673"),
    "InsufficientVolumeCapacity": Row("zone", "no capacity for the root volume in this zone", "doc"),
    "InsufficientFreeAddressesInSubnet": Row("zone", "the subnet has no free address", "doc"),
    "SpotMaxPriceTooLow": Row("zone", "the spot price is above what would be paid", "doc"),
    "Unsupported": Row("zone", "the zone does not have this type", "doc; skypilot-org/skypilot#975"),
    "VolumeTypeNotAvailableInZone": Row("zone", "the zone has no gp3 volumes", "doc"),
    "InvalidSubnetID.NotFound": Row("zone", "there is no such subnet", "doc"),
    "InvalidSubnet": Row("zone", "the subnet cannot be used", "doc"),
    "Server.InsufficientInstanceCapacity": Row("zone", NO_CAPACITY, "state"),
    "Server.SpotInstanceTermination": Row("zone", "AWS took the instance back while it started", "state"),
    "Server.SpotInstanceShutdown": Row("zone", "AWS took the instance back while it started", "state"),
    "Server.InternalError": Row("zone", "AWS failed to start the instance", "state"),
    "MaxSpotInstanceCountExceeded": Row("region", QUOTA, "doc; hashicorp/terraform-provider-aws#17543"),
    "VcpuLimitExceeded": Row("region", QUOTA, "doc"),
    "InstanceLimitExceeded": Row("region", QUOTA, "doc"),
    "VolumeLimitExceeded": Row("region", "the account's quota of volumes in this region is used up", "doc"),
    "Client.VolumeLimitExceeded": Row("region", "the account's quota of volumes in this region is used up", "state"),
    "PendingVerification": Row("region", "AWS is still checking whether the account may use this region", "doc"),
    "OptInRequired": Row("region", NOT_ENABLED, "doc"),
    "AuthFailure": Row("region", NOT_ENABLED, "doc; hjacobs/kube-resource-report#108"),
    "UnrecognizedClientException": Row("region", NOT_ENABLED, "doc"),
    "UnauthorizedOperation": Row("region", "the credentials do not allow this launch here", "doc"),
    "InvalidAMIID.NotFound": Row("region", "there is no such image in this region", "doc"),
    "InvalidAMIID.Unavailable": Row("region", "the image cannot be used", "doc"),
    "Client.InvalidSnapshot.NotFound": Row("region", "the image's snapshot is gone", "state"),
    "Client.InternalError": Row("region", "the root volume's key cannot be used", "state"),
    "RequestLimitExceeded": Row("wait", "AWS is throttling", "doc"),
    "Throttling": Row("wait", "AWS is throttling", "doc"),
    "ThrottlingException": Row("wait", "AWS is throttling", "doc"),
    "InternalError": Row("again", "a passing fault at AWS", "doc"),
    "InternalFailure": Row("again", "a passing fault at AWS", "doc"),
    "ServiceUnavailable": Row("again", "a passing fault at AWS", "doc"),
    "Unavailable": Row("again", "a passing fault at AWS", "doc"),
    "ConcurrentTagAccess": Row("wait", "a passing fault at AWS", "doc"),
    "NoAnswer": Row("again", "no answer came", "botocore's connection errors"),
    "InvalidGroup.NotFound": Row("wait", NOT_YET, "doc: eventual consistency"),
    "InvalidKeyPair.NotFound": Row("wait", NOT_YET, "doc: eventual consistency"),
    "InvalidIamInstanceProfile": Row("wait", NOT_YET, "doc: eventual consistency; told as InvalidParameterValue"),
    "IdempotentInstanceTerminated": Row("anew", "what this token launched has ended", "doc"),
    "IdempotentParameterMismatch": Row("anew", "this token was used for another launch", "doc"),
    "ExpiredToken": Row("stop", CREDENTIALS, "doc"),
    "RequestExpired": Row("stop", CREDENTIALS, "doc"),
    "InvalidClientTokenId": Row("stop", CREDENTIALS, "doc"),
    "SignatureDoesNotMatch": Row("stop", CREDENTIALS, "doc"),
    "MissingAuthenticationToken": Row("stop", CREDENTIALS, "doc"),
    "NoCredentials": Row("stop", CREDENTIALS, "botocore's NoCredentialsError"),
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": Row(
        "stop", "the account has no role for spot yet; once: aws iam create-service-linked-role --aws-service-name"
        " spot.amazonaws.com", "doc of service-linked roles for Spot",
    ),
    "Blocked": Row("stop", "AWS has blocked the account", "doc"),
    "InvalidParameterValue": Row("stop", "a setting that AWS refuses", "doc"),
    "InvalidParameterCombination": Row("stop", "settings that AWS refuses together", "doc"),
    "InvalidBlockDeviceMapping": Row("stop", "a root volume that AWS refuses", "doc"),
}
# An error of tomorrow: it costs one call to see whether the next zone knows it, too, and each is told.
UNKNOWN = Row("zone", "an error that the kit does not know", "")


def error_row(code):
    return ERRORS.get(code, UNKNOWN)


def in_effect(code, message):
    """The code, told from its message where AWS has one code for several things."""
    if code == "InvalidParameterValue" and "iam instance profile" in message.lower():
        return "InvalidIamInstanceProfile"
    if code == "InvalidParameterValue" and "availability zone" in message.lower():
        return "Unsupported"
    return code
