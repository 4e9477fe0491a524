#!/usr/bin/python
"""What a region has for a launch: subnets by zone, the image of each type. Changes nothing."""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    import boto3
    from ansible.module_utils.launch_errors import error_row
    from ansible.module_utils.launch_place import read_place
    from ansible.module_utils.launch_walk import told_error
    from ansible.module_utils.spot_survey import CONFIG
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: spot_instance_place
short_description: The subnets and images that a region has for a launch
description:
  - Returns C(subnets) ({zone: {id, vpc_id}}), C(missing_zones) (zones that need a subnet first), C(images) ({type: {id,
    root_device, root_gb, source}}); or C(refused) when the region cannot be used.
options:
  region: {type: str, required: true, description: The region.}
  offers: {type: list, elements: dict, required: true, description: The offers in it; of spot_market's plan.}
  subnet_ids: {type: dict, default: {}, description: "Subnets to use, by zone."}
  image_ids: {type: dict, default: {}, description: "Images to use, by region."}
  image_parameter: {type: str, required: true, description: Parameter of AWS that names the image to use else.}
  profiles: {type: dict, default: {}, description: What is known of each type; a baked image must suit it.}
  image_tags: {type: dict, default: {}, description: More tags that a baked image must carry.}
  root_gb: {type: int, required: true, description: Size of the root volume.}
author: The authors of this project
"""

OPTIONS = {
    "region": {"type": "str", "required": True},
    "offers": {"type": "list", "elements": "dict", "required": True},
    "subnet_ids": {"type": "dict", "default": {}},
    "image_ids": {"type": "dict", "default": {}},
    "image_parameter": {"type": "str", "required": True},
    "profiles": {"type": "dict", "default": {}},
    "image_tags": {"type": "dict", "default": {}},
    "root_gb": {"type": "int", "required": True},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    region = module.params["region"]
    clients = [boto3.client(name, region_name=region, config=CONFIG) for name in ("ec2", "ssm")]
    try:
        module.exit_json(changed=False, refused="", **read_place(*clients, module.params))
    except ValueError as error:
        module.fail_json(msg=str(error))
    except (BotoCoreError, ClientError) as error:
        code, message = told_error(error)
        row = error_row(code)
        if row.step == "stop":
            module.fail_json(msg=f"Failed to look at {region}: {code}: {message} ({row.meaning})")
        module.exit_json(changed=False, refused=f"{code}: {message} ({row.meaning})")


if __name__ == "__main__":
    main()
