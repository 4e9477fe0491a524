#!/usr/bin/python
"""A bucket whose unfinished uploads end by themselves."""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: bucket_lifecycle
short_description: Make a bucket end the uploads that nobody finishes
description:
  - The rule is added to those that the bucket has.
options:
  bucket: {type: str, required: true, description: The bucket's name.}
  region: {type: str, required: true, description: Its region.}
  abort_uploads_days: {type: int, required: true, description: How many days an upload may take.}
author: The authors of this project
"""
OPTIONS = {
    "bucket": {"type": "str", "required": True},
    "region": {"type": "str", "required": True},
    "abort_uploads_days": {"type": "int", "required": True},
}
RULE_ID = "end-unfinished-uploads"
NOT_THERE = {"NoSuchLifecycleConfiguration", "NoSuchBucket"}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    bucket = module.params["bucket"]
    s3 = boto3.session.Session().client("s3", region_name=module.params["region"])
    try:
        module.exit_json(changed=ensure(module, s3, bucket))
    except (BotoCoreError, ClientError) as error:
        module.fail_json(msg=f"Failed to set the lifecycle of bucket {bucket}: {error}")


def ensure(module, s3, bucket):
    wanted = {
        "ID": RULE_ID, "Status": "Enabled", "Filter": {"Prefix": ""},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": module.params["abort_uploads_days"]},
    }
    rules = read(s3, bucket)
    if wanted in rules:
        return False
    if not module.check_mode:
        others = [rule for rule in rules if rule.get("ID") != RULE_ID]
        s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [*others, wanted]})
    return True


def read(s3, bucket):
    """The rules that the bucket has; none for one that is not there (in check mode)."""
    try:
        return s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    except ClientError as error:
        if error.response["Error"]["Code"] in NOT_THERE:
            return []
        raise


if __name__ == "__main__":
    main()
