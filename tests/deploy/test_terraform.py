"""deploy/terraform: its form, the provider's schema, references, tags, and the findings of checkov.

The provider comes from no package registry. So arguments are checked against its schema, and
Terraform plans with stand-ins for its resources.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import DEPLOY, ROOT, terraform
from serving import CLEAN
from terraform_lint import SCHEMA, lint, load
from terraform_plan import translate_all

TERRAFORM = DEPLOY / "terraform"
ROOTS = ["guard", "s1", "s3", "left"]
CHECKOV = ROOT / ".venv" / "checkov" / "bin" / "checkov"
SKIP = re.compile(r"#checkov:skip=(\w+):(.+)")


def files(suffix: str = ".tf") -> list[Path]:
    return sorted(TERRAFORM.rglob(f"*{suffix}"))


def test_files_have_terraforms_own_form():
    done = subprocess.run(
        [terraform(), "fmt", "-check", "-diff", "-recursive", TERRAFORM], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_arguments_blocks_and_references_exist():
    assert lint(TERRAFORM) == []


# Faults to insert. For each: the file, the text, its replacement, and the finding that must follow.
FAULTS = {
    "misspelt argument": ("s1/functions.tf", "memory_size ", "memory_sizes ", "no argument or block `memory_sizes`"),
    "misspelt block": ("s1/functions.tf", "ephemeral_storage {", "ephemeral_store {", "`ephemeral_store`"),
    "misspelt dynamic block": ("s1/functions.tf", '"file_system_config" {', '"file_system" {', "`file_system`"),
    "misspelt nested argument": ("modules/efs/main.tf", "owner_uid ", "owner ", "`owner_uid` is required"),
    "missing argument": ("modules/efs/main.tf", "  subnet_id       =", "  #", "`subnet_id` is required"),
    "missing block argument": ("s1/functions.tf", "    subnet_ids         =", "    #", "`subnet_ids` is required"),
    "block written as argument": ("s1/functions.tf", "vpc_config {", "vpc_config = {", "`vpc_config` is a block"),
    "unknown type": ("s1/api.tf", '"aws_lambda_permission"', '"aws_lambda_permit"', "no such type"),
    "dangling resource": ("s1/api.tf", "aws_iam_role.function.arn", "aws_iam_role.other.arn", "not declared"),
    "dangling attribute": ("s1/api.tf", "api.invoke_arn", "api.call_arn", "no attribute `call_arn`"),
    "dangling variable": ("s3/batch.tf", "var.max_vcpus", "var.most_vcpus", "var.most_vcpus: not declared"),
    "dangling local": ("s3/batch.tf", "local.user_data", "local.data", "local.data: not declared"),
    "dangling output": ("s1/outputs.tf", "module.bucket.name", "module.bucket.title", "not declared"),
    "dangling data source": ("s3/batch.tf", "data.aws_region.here", "data.aws_region.there", "not declared"),
    "missing variable of a module": ("s1/main.tf", "  clients ", "  #", "`clients` is required"),
    "unknown variable of a module": ("s3/main.tf", "internet =", "inet =", "no variable `inet`"),
    "missing value of a template": ("s3/roles.tf", "file_system  =", "system =", "needs `file_system`"),
    "missing template": ("s3/roles.tf", "/instance.json", "/instances.json", "does not exist"),
    "unused variable": ("s3/batch.tf", "var.spot ?", "true ?", "var.spot is not used"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, tmp_path):
    name, old, new, found = FAULTS[fault]
    shutil.copytree(TERRAFORM, tmp_path / "terraform")
    planted = tmp_path / "terraform" / name
    text = planted.read_text()
    assert old in text, "the fault cannot be planted: its line has changed"
    planted.write_text(text.replace(old, new))
    findings = lint(tmp_path / "terraform")
    assert any(found in finding for finding in findings), findings


@pytest.mark.parametrize("root", ROOTS)
def test_whatever_can_carry_tags_carries_those_of_the_run(root):
    module = load(TERRAFORM / root)
    if not any(not kind.startswith("data_") for kind, _ in module.resources):
        return
    [provider] = module.providers
    tags = provider["default_tags"][0]["tags"]
    assert tags == {"project": '"firstbyte"', "run": "${var.run}"}
    for (kind, name), body in module.resources.items():
        assert not {"project", "run"} & set(body.get("tags", {})), f"{kind}.{name} overrides a tag"


def test_what_batch_starts_carries_the_tags():
    """Default tags do not reach instances, volumes and jobs, so the resources that start these must
    pass the tags on.
    """
    module = load(TERRAFORM / "s3")
    assert module.locals["tags"] == {"Name": "${local.name}", "project": '"firstbyte"', "run": "${var.run}"}
    template = module.resources["aws_launch_template", "this"]
    assert "${local.tags}" in json.dumps(template["dynamic"])
    environment = module.resources["aws_batch_compute_environment", "this"]
    assert environment["compute_resources"][0]["tags"] == "${local.tags}"
    assert module.resources["aws_batch_job_definition", "this"]["propagate_tags"] is True


def test_variables_and_outputs_are_documented():
    for path in {file.parent for file in files()}:
        module = load(path)
        for name, block in [*module.variables.items(), *module.outputs.items()]:
            assert len(block.get("description", "")) > 10, f"{path.name}: {name} has no description"
        for name, block in module.variables.items():
            assert "type" in block, f"{path.name}: {name} has no type"


def test_no_account_is_written_down():
    for path in [*files(), *files(".tftpl"), *(DEPLOY / "policies").iterdir()]:
        assert not re.search(r"\b\d{12}\b", path.read_text()), path


def test_the_schema_is_small_and_holds_nothing_unused():
    kinds = {kind for path in {file.parent for file in files()} for kind, _ in load(path).resources}
    assert kinds == set(SCHEMA), "run scripts/aws_schema.py"
    assert (ROOT / "tests" / "deploy" / "aws_schema.json").stat().st_size < 200_000


def test_checkov_finds_nothing_and_each_exception_is_argued():
    done = subprocess.run(
        [CHECKOV, "--directory", TERRAFORM, "--framework", "terraform", "--skip-download", "--output", "json"],
        capture_output=True,
        text=True,
    )
    results = json.loads(done.stdout)["results"]
    failed = [f"{check['check_id']} {check['resource']}: {check['check_name']}" for check in results["failed_checks"]]
    assert failed == [] and results["parsing_errors"] == []
    assert len(results["passed_checks"]) > 100
    argued = {(str(path), skip) for path in files() for skip, reason in SKIP.findall(path.read_text()) if reason.strip()}
    applied = {(check["file_abs_path"], check["check_id"]) for check in results["skipped_checks"]}
    assert argued == applied, "an exception without a finding, or one without a reason"


REQUIRED = {"region": "us-east-1", "run": "mine", "limit_usd": "1", "email": "a@b", "firstbyte": "x"}


@pytest.mark.parametrize(
    ("root", "name", "value", "line"),
    [
        ("s1", "run", "Not_A_Name", "2 to 19 lower-case letters"),
        ("s1", "region", "somewhere", "must look like us-east-1"),
        ("s1", "memory_sizes", "[64]", "128 to 10240 MB"),
        ("s1", "tmp_mb", "20000", "512 to 10240 MB"),
        ("s1", "log_days", "2", "CloudWatch accepts"),
        ("s1", "directory_buckets", '["arn:aws:s3:::data"]', "must look like arn:aws:s3express:"),
        ("s3", "lustre_gib", "1300", "multiple of 2400"),
        ("s3", "expected_entry", "a b", "letters, digits, dots"),
        ("guard", "email", "me", "name@example.org"),
    ],
)
def test_a_bad_variable_gets_a_line(root, name, value, line, tmp_path):
    """Terraform itself checks the values of variables, for which it needs no provider."""
    shutil.copy(TERRAFORM / root / "variables.tf", tmp_path)
    given = {key: text for key, text in REQUIRED.items() if key in load(tmp_path).variables}

    assert plan(tmp_path, given).returncode == 0
    refused = plan(tmp_path, given | {name: value})
    assert refused.returncode == 1 and line in " ".join(refused.stderr.split()), refused.stderr


def run_terraform(folder: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [terraform(), f"-chdir={folder}", *words, "-input=false", "-no-color"],
        env=CLEAN | {"TF_CLI_CONFIG_FILE": "/dev/null", "CHECKPOINT_DISABLE": "1"},
        capture_output=True,
        text=True,
    )


def plan(folder: Path, variables: dict[str, str], *words: str) -> subprocess.CompletedProcess:
    return run_terraform(folder, "plan", *words, *(f"-var={name}={value}" for name, value in variables.items()))


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    for name in ("function-x86_64", "function-arm64", "api-x86_64", "api-arm64", "layer-x86_64", "layer-arm64", "handlers"):
        (folder / f"{name}.zip").touch()
    return folder


def planned(source: Path, target: Path, root: str, variables: dict[str, str], *words: str):
    """Runs Terraform's plan in a directory, with stand-ins for the resources of the provider."""
    translate_all(source, target)
    started = run_terraform(target / "terraform" / root, "init")
    return started if started.returncode else plan(target / "terraform" / root, variables, *words)


DIRECTORY_BUCKETS = {"directory_buckets": '["arn:aws:s3express:us-east-1:111122223333:bucket/data--use1-az4--x-s3"]'}


@pytest.mark.parametrize(
    ("root", "variables", "resources"),
    [
        ("guard", {"by_tag": "true"}, 1),
        ("s1", {}, 51),
        ("s1", {"s3_files": "true", "architecture": "arm64", "memory_sizes": "[512]"} | DIRECTORY_BUCKETS, 50),
        ("s3", {}, 52),
        ("s3", {"gateway": "true"}, 54),
        ("s3", {"lustre": "true", "lustre_type": "PERSISTENT_2", "spot": "true", "expected_entry": "db"} | DIRECTORY_BUCKETS, 56),
        ("left", {}, 0),
    ],
)
def test_terraform_evaluates_every_expression(root, variables, resources, dist, tmp_path):
    needed = {name: text for name, text in REQUIRED.items() if name in load(TERRAFORM / root).variables}
    given = needed | ({"dist": str(dist)} if root == "s1" else {}) | ({"firstbyte": __file__} if root == "s3" else {})
    done = planned(TERRAFORM, tmp_path / "whole", root, given | variables)
    assert done.returncode == 0, done.stderr
    assert f"Plan: {resources} to add" in done.stdout or resources == 0 and "Changes to Outputs" in done.stdout, (
        done.stdout[-1000:]
    )


def test_the_published_setting_is_planned(tmp_path):
    words = [f"-var-file={TERRAFORM / 's3' / 'full.tfvars'}"]
    given = {"region": "us-east-1", "run": "mine", "firstbyte": __file__}
    done = planned(TERRAFORM, tmp_path / "whole", "s3", given, *words)
    assert done.returncode == 0, done.stderr
    assert "r6i.24xlarge" in done.stdout and "Plan: 55 to add" in done.stdout, done.stdout[-1000:]


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("s1/functions.tf", "each.value.memory\n", "each.value.size\n", "Unsupported attribute"),
        ("s3/batch.tf", "tostring(var.vcpus)", "tostring(var.instance_types)", "cannot convert"),
        ("s3/batch.tf", "for_each = local.mounts", "for_each = [1]", "Invalid for_each argument"),
    ],
)
def test_faults_of_evaluation_are_found(name, old, new, found, dist, tmp_path):
    shutil.copytree(TERRAFORM, tmp_path / "terraform")
    (tmp_path / "policies").symlink_to(DEPLOY / "policies")
    planted = tmp_path / "terraform" / name
    text = planted.read_text()
    assert old in text, "the fault cannot be planted: its line has changed"
    planted.write_text(text.replace(old, new))
    given = {"region": "us-east-1", "run": "mine"} | ({"dist": str(dist)} if name.startswith("s1") else {"firstbyte": __file__})
    done = planned(tmp_path / "terraform", tmp_path / "whole", name.split("/")[0], given)
    assert done.returncode == 1 and found in done.stderr, done.stdout + done.stderr
