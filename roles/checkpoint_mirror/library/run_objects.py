#!/usr/bin/python
"""What a run has in a bucket: counted, or deleted; and the mark that there is such a run."""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: run_objects
short_description: Count or delete the objects below a prefix
description:
  - Returns C(count) and C(bytes) (of what is or was there, without the mark) and C(bucket_is_empty).
  - With C(marked) an empty object named like the prefix says that the bucket is in use, before there is a checkpoint.
  - With C(absent) unfinished uploads below the prefix end as well.
options:
  bucket: {type: str, required: true, description: The bucket's name.}
  region: {type: str, required: true, description: Its region.}
  prefix: {type: str, required: true, description: "A folder and a run: two words at least, with a / at the end."}
  state: {type: str, choices: [listed, absent, marked], required: true, description: What is to be done.}
  must_exist: {type: bool, default: false, description: "Whether it is an error when there is no such bucket."}
author: The authors of this project
"""
OPTIONS = {
    "bucket": {"type": "str", "required": True},
    "region": {"type": "str", "required": True},
    "prefix": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["listed", "absent", "marked"], "required": True},
    "must_exist": {"type": "bool", "default": False},
}
ATTEMPTS = {"listed": "list", "absent": "delete", "marked": "mark"}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    where = f"s3://{module.params['bucket']}/{module.params['prefix']}"
    attempt = f"{ATTEMPTS[module.params['state']]} {where}"
    refuse_vague(module, attempt)
    s3 = boto3.session.Session().client("s3", region_name=module.params["region"])
    try:
        module.exit_json(**work(module, s3))
    except (BotoCoreError, ClientError) as error:
        module.fail_json(msg=f"Failed to {attempt}: {error}")


def refuse_vague(module, attempt):
    """A prefix without a run's name would take the checkpoints of every run."""
    words = module.params["prefix"].split("/")
    if len(words) < 3 or words[-1] or not all(word.strip() for word in words[:-1]):
        module.fail_json(msg=f'Failed to {attempt}: prefix must be a folder, a run and a "/", got "{words}"')


def work(module, s3):
    bucket, prefix = module.params["bucket"], module.params["prefix"]
    objects = pages(module, s3, "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
    files = [one for one in objects if one["Key"] != prefix]
    facts = {"count": len(files), "bytes": sum(one["Size"] for one in files), "bucket_is_empty": False}
    if module.params["state"] == "listed":
        return facts | {"changed": False}
    if module.params["state"] == "marked":
        return facts | {"changed": mark(module, s3, is_marked=files != objects)}
    uploads = pages(module, s3, "list_multipart_uploads", "Uploads", Bucket=bucket, Prefix=prefix)
    if not module.check_mode:
        delete(s3, bucket, objects, uploads)
    left = pages(module, s3, "list_objects_v2", "Contents", Bucket=bucket)
    others = [one for one in left if not one["Key"].startswith(prefix)]
    return facts | {"changed": bool(objects or uploads), "bucket_is_empty": not others}


def mark(module, s3, is_marked):
    if not is_marked and not module.check_mode:
        s3.put_object(Bucket=module.params["bucket"], Key=module.params["prefix"], Body=b"")
    return not is_marked


def pages(module, s3, operation, key, **question):
    try:
        return [row for page in s3.get_paginator(operation).paginate(**question) for row in page.get(key, [])]
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchBucket" and not module.params["must_exist"]:
            return []
        raise


def delete(s3, bucket, objects, uploads):
    for one in objects:
        s3.delete_object(Bucket=bucket, Key=one["Key"])
    for upload in uploads:
        s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


if __name__ == "__main__":
    main()
