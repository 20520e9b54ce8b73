"""The resources of deploy/terraform, made by boto3 in moto: the same kinds, with the same tags.

`Cloud` replaces Terraform for verify.py: it makes a stack one resource after the other, records
each in a state, and destroys in reverse. provisioner.py sends it requests, and test_verify.py
watches its changes.
"""

import io
import json
import threading
import zipfile
from collections.abc import Callable
from multiprocessing.connection import Connection, Listener
from pathlib import Path

ACCOUNT = "123456789012"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
IMAGE = "public.ecr.aws/amazonlinux/amazonlinux:2023"

SERVICES = ["apigatewayv2", "batch", "budgets", "ec2", "efs", "iam", "lambda", "logs", "s3"]

# The order in which the resources of each stack are made. Kinds that s1 already has are left out of
# s3 unless s3 needs them.
STACKS = {
    "guard": ["budget"],
    "s1": [
        *("vpc", "subnet", "endpoint", "group", "bucket", "file system", "access point", "mount target"),
        *("log group", "role", "layer", "function", "api"),
    ],
    "s3": [
        *("vpc", "gateway", "subnet", "group", "role", "profile", "template", "environment", "queue"),
        "job definition",
    ],
}


def code() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("bootstrap", "")
    return data.getvalue()


class Kinds:
    """Makes, destroys and finds resources of each kind, with methods such as `make_KIND`.

    The name of a resource is the one with which its service destroys it. `made` maps each kind to
    its names.
    """

    def __init__(self, clients: dict, run: str):
        self.run = run
        self.tags = {"project": "firstbyte", "run": run}
        self.listed = [{"Key": key, "Value": value} for key, value in self.tags.items()]
        self.small = [{"key": key, "value": value} for key, value in self.tags.items()]
        self.api, self.batch, self.budgets, self.ec2, self.efs, self.iam, self.functions, self.logs, self.s3 = (
            clients[name] for name in SERVICES
        )

    def on(self, resource: str) -> dict:
        return {"TagSpecifications": [{"ResourceType": resource, "Tags": self.listed}]}

    def of_run(self) -> dict:
        return {"Filters": [{"Name": "tag:run", "Values": [self.run]}]}

    def make(self, kind: str, name: str, made: dict[str, str]) -> str:
        return getattr(self, "make_" + kind.replace(" ", "_"))(name, made)

    def destroy(self, kind: str, name: str) -> None:
        getattr(self, "destroy_" + kind.replace(" ", "_"))(name)

    def make_budget(self, name, made):
        budget = {"BudgetName": name, "TimeUnit": "MONTHLY", "BudgetType": "COST"}
        budget |= {"BudgetLimit": {"Amount": "20", "Unit": "USD"}}
        self.budgets.create_budget(AccountId=ACCOUNT, Budget=budget)
        return name

    def destroy_budget(self, name):
        self.budgets.delete_budget(AccountId=ACCOUNT, BudgetName=name)

    def make_vpc(self, name, made):
        return self.ec2.create_vpc(CidrBlock="10.74.0.0/16", **self.on("vpc"))["Vpc"]["VpcId"]

    def destroy_vpc(self, name):
        self.ec2.delete_vpc(VpcId=name)

    def make_subnet(self, name, made):
        return self.ec2.create_subnet(VpcId=made["vpc"], CidrBlock="10.74.0.0/24", **self.on("subnet"))["Subnet"]["SubnetId"]

    def destroy_subnet(self, name):
        self.ec2.delete_subnet(SubnetId=name)

    def make_endpoint(self, name, made):
        given = {"VpcId": made["vpc"], "ServiceName": "com.amazonaws.us-east-1.s3", "VpcEndpointType": "Gateway"}
        return self.ec2.create_vpc_endpoint(**given, **self.on("vpc-endpoint"))["VpcEndpoint"]["VpcEndpointId"]

    def destroy_endpoint(self, name):
        self.ec2.delete_vpc_endpoints(VpcEndpointIds=[name])

    def make_gateway(self, name, made):
        gateway = self.ec2.create_internet_gateway(**self.on("internet-gateway"))["InternetGateway"]
        return gateway["InternetGatewayId"]

    def destroy_gateway(self, name):
        self.ec2.delete_internet_gateway(InternetGatewayId=name)

    def make_group(self, name, made):
        given = {"GroupName": name, "Description": "what reads", "VpcId": made["vpc"]}
        return self.ec2.create_security_group(**given, **self.on("security-group"))["GroupId"]

    def destroy_group(self, name):
        self.ec2.delete_security_group(GroupId=name)

    def make_bucket(self, name, made):
        self.s3.create_bucket(Bucket=name)
        self.s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": self.listed})
        return name

    def destroy_bucket(self, name):
        self.s3.delete_bucket(Bucket=name)

    def make_file_system(self, name, made):
        return self.efs.create_file_system(CreationToken=name, Tags=self.listed)["FileSystemId"]

    def destroy_file_system(self, name):
        self.efs.delete_file_system(FileSystemId=name)

    def make_access_point(self, name, made):
        given = {"ClientToken": name, "FileSystemId": made["file system"], "Tags": self.listed}
        return self.efs.create_access_point(**given)["AccessPointId"]

    def destroy_access_point(self, name):
        self.efs.delete_access_point(AccessPointId=name)

    def make_mount_target(self, name, made):
        given = {"FileSystemId": made["file system"], "SubnetId": made["subnet"], "SecurityGroups": [made["group"]]}
        return self.efs.create_mount_target(**given)["MountTargetId"]

    def destroy_mount_target(self, name):
        self.efs.delete_mount_target(MountTargetId=name)

    def make_log_group(self, name, made):
        self.logs.create_log_group(logGroupName=name, tags=self.tags)
        return name

    def destroy_log_group(self, name):
        self.logs.delete_log_group(logGroupName=name)

    def make_role(self, name, made):
        self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST, Tags=self.listed)
        return name

    def destroy_role(self, name):
        self.iam.delete_role(RoleName=name)

    def make_profile(self, name, made):
        self.iam.create_instance_profile(InstanceProfileName=name, Tags=self.listed)
        return name

    def destroy_profile(self, name):
        self.iam.delete_instance_profile(InstanceProfileName=name)

    def make_layer(self, name, made):
        layer = self.functions.publish_layer_version(LayerName=name, Content={"ZipFile": code()})
        return f"{name}:{layer['Version']}"

    def destroy_layer(self, name):
        layer, version = name.rsplit(":", 1)
        self.functions.delete_layer_version(LayerName=layer, VersionNumber=int(version))

    def make_function(self, name, made):
        role = f"arn:aws:iam::{ACCOUNT}:role/{made['role']}"
        given = {"Runtime": "provided.al2023", "Handler": "bootstrap", "Role": role, "Code": {"ZipFile": code()}}
        return self.functions.create_function(FunctionName=name, Tags=self.tags, **given)["FunctionName"]

    def destroy_function(self, name):
        self.functions.delete_function(FunctionName=name)

    def make_api(self, name, made):
        return self.api.create_api(Name=name, ProtocolType="HTTP", Tags=self.tags)["ApiId"]

    def destroy_api(self, name):
        self.api.delete_api(ApiId=name)

    def make_template(self, name, made):
        given = {"LaunchTemplateName": name, "LaunchTemplateData": {"InstanceType": "m6i.xlarge"}}
        return self.ec2.create_launch_template(**given, **self.on("launch-template"))["LaunchTemplate"]["LaunchTemplateId"]

    def destroy_template(self, name):
        self.ec2.delete_launch_template(LaunchTemplateId=name)

    def make_environment(self, name, made):
        resources = {"type": "EC2", "minvCpus": 0, "maxvCpus": 16, "instanceTypes": ["m6i.xlarge"]}
        resources |= {"subnets": [made["subnet"]], "securityGroupIds": [made["group"]]}
        resources |= {"instanceRole": f"arn:aws:iam::{ACCOUNT}:instance-profile/{made['profile']}"}
        role = f"arn:aws:iam::{ACCOUNT}:role/{made['role']}"
        given = {"type": "MANAGED", "state": "ENABLED", "computeResources": resources, "serviceRole": role}
        self.batch.create_compute_environment(computeEnvironmentName=name, tags=self.tags, **given)
        return name

    def destroy_environment(self, name):
        self.batch.update_compute_environment(computeEnvironment=name, state="DISABLED")
        self.batch.delete_compute_environment(computeEnvironment=name)

    def make_queue(self, name, made):
        order = [{"order": 1, "computeEnvironment": made["environment"]}]
        given = {"state": "ENABLED", "priority": 1, "computeEnvironmentOrder": order, "tags": self.tags}
        self.batch.create_job_queue(jobQueueName=name, **given)
        return name

    def destroy_queue(self, name):
        self.batch.update_job_queue(jobQueue=name, state="DISABLED")
        self.batch.delete_job_queue(jobQueue=name)

    def make_job_definition(self, name, made):
        properties = {"image": IMAGE, "vcpus": 4, "memory": 14000}
        given = {"type": "container", "containerProperties": properties, "tags": self.tags}
        return self.batch.register_job_definition(jobDefinitionName=name, **given)["jobDefinitionArn"]

    def destroy_job_definition(self, name):
        self.batch.deregister_job_definition(jobDefinition=name)

    def all(self) -> list[str]:
        """Returns the resources of this run, as the services list them, whether or not they have
        tags.
        """
        mine = lambda names: [name for name in names if self.run in name]
        ec2 = self.ec2
        definitions = self.batch.describe_job_definitions(status="ACTIVE")["jobDefinitions"]
        return [
            *mine(budget["BudgetName"] for budget in self.budgets.describe_budgets(AccountId=ACCOUNT).get("Budgets", [])),
            *(item["VpcId"] for item in ec2.describe_vpcs(**self.of_run())["Vpcs"]),
            *(item["SubnetId"] for item in ec2.describe_subnets(**self.of_run())["Subnets"]),
            *(item["GroupId"] for item in ec2.describe_security_groups(**self.of_run())["SecurityGroups"]),
            *(
                item["VpcEndpointId"]
                for item in ec2.describe_vpc_endpoints(**self.of_run())["VpcEndpoints"]
                if item["State"] != "deleted"
            ),
            *(item["InternetGatewayId"] for item in ec2.describe_internet_gateways(**self.of_run())["InternetGateways"]),
            *mine(item["LaunchTemplateName"] for item in ec2.describe_launch_templates()["LaunchTemplates"]),
            *mine(item["Name"] for item in self.s3.list_buckets()["Buckets"]),
            *(item["FileSystemId"] for item in self.efs.describe_file_systems()["FileSystems"]),
            *(item["AccessPointId"] for item in self.efs.describe_access_points()["AccessPoints"]),
            *mine(item["logGroupName"] for item in self.logs.describe_log_groups()["logGroups"]),
            *mine(item["RoleName"] for item in self.iam.list_roles()["Roles"]),
            *mine(item["InstanceProfileName"] for item in self.iam.list_instance_profiles()["InstanceProfiles"]),
            *mine(item["LayerName"] for item in self.functions.list_layers()["Layers"]),
            *mine(item["FunctionName"] for item in self.functions.list_functions()["Functions"]),
            *mine(item["Name"] for item in self.api.get_apis()["Items"]),
            *mine(
                item["computeEnvironmentName"]
                for item in self.batch.describe_compute_environments()["computeEnvironments"]
            ),
            *mine(item["jobQueueName"] for item in self.batch.describe_job_queues()["jobQueues"]),
            *mine(item["jobDefinitionName"] for item in definitions),
        ]


class Cloud:
    """Answers the requests of provisioner.py. `on_change` is called after each change, with the
    number of changes so far. The first `refusals` requests to destroy are refused.
    """

    def __init__(self, moto, socket: Path):
        self.clients = {name: moto.client(name) for name in SERVICES}
        self.tagging = moto.client("resourcegroupstaggingapi")
        self.begin()
        self.listener = Listener(str(socket), "AF_UNIX")
        threading.Thread(target=self.serve, daemon=True).start()

    def begin(self) -> None:
        """Forgets the changes and settings of the previous test."""
        self.changes: list[str] = []
        self.on_change: Callable[[int], None] = lambda number: None
        self.refusals = 0
        # Name of an output that the stack does not return.
        self.forgotten = ""

    def kinds(self, run: str) -> Kinds:
        return Kinds(self.clients, run)

    def serve(self) -> None:
        while True:
            with self.listener.accept() as program:
                try:
                    program.send(self.answer(program, *program.recv()))
                except (EOFError, BrokenPipeError):
                    # The program was killed, so wait for the next one.
                    continue

    def answer(self, program: Connection, action: str, *words: str) -> int:
        if action == "left":
            run = Path(words[0])
            filters = [{"Key": "run", "Values": [run.name]}]
            found = self.tagging.get_resources(TagFilters=filters)["ResourceTagMappingList"]
            (run / "left.json").write_text(json.dumps([item["ResourceARN"] for item in found]))
            return 0
        stack, run = words[0], Path(words[1])
        path = run / f"{stack}.state.json"
        state = json.loads(path.read_text()) if path.exists() else []
        kinds = self.kinds(run.name)
        if action == "destroy" and self.refusals > 0:
            self.refusals -= 1
            return 1
        changes = self.making(stack, run, state, kinds) if action == "apply" else self.destroying(stack, state, kinds)
        for change in changes:
            path.write_text(json.dumps(state))
            self.changes.append(change)
            self.on_change(len(self.changes))
            # The program answers false if a signal has interrupted it.
            program.send("changed")
            if not program.recv():
                return 130
        if action == "apply":
            made = dict(state)
            functions = {kind: f"firstbyte-{kind}-{{memory}}" for kind in ("mounted", "boto3", "shutil", "package")}
            outputs = {"bucket": f"firstbyte-{run.name}", "functions": functions, "queue": made.get("queue")}
            # The ARN of a job definition ends with its name and revision.
            outputs["job_definitions"] = {"efs": made.get("job definition", "").split("/")[-1].split(":")[0]}
            outputs.pop(self.forgotten, None)
            (run / f"{stack}.outputs.json").write_text(json.dumps(outputs))
        return 0

    def making(self, stack: str, run: Path, state: list, kinds: Kinds):
        for number, kind in enumerate(STACKS[stack][len(state) :], len(state)):
            name = kinds.make(kind, f"firstbyte-{run.name}-{stack}-{number}", dict(state))
            state.append((kind, name))
            yield f"make {stack} {kind}"

    def destroying(self, stack: str, state: list, kinds: Kinds):
        while state:
            kind, name = state[-1]
            kinds.destroy(kind, name)
            state.pop()
            yield f"destroy {stack} {kind}"
