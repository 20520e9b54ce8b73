"""Lets Terraform plan the files without the AWS provider.

Each resource becomes one of the built-in type `terraform_data`. The resource's arguments become the
input, and the attributes that AWS would compute are unknown. So Terraform itself evaluates every
expression, counts and keys, calls of modules, templates and the types of variables. It does not
check the arguments, which terraform_lint.py does. Called by test_terraform.py.
"""

import json
import re
from pathlib import Path

from terraform_lint import INDEX, META, REFERENCE, SCHEMA, Module, is_block, load, unquoted

# The values that data sources return.
DATA = {
    "data_aws_region": {"region": "us-east-1"},
    "data_aws_ssm_parameter": {"insecure_value": "ami-0"},
    "data_aws_partition": {"partition": "aws"},
    "data_aws_availability_zones": {"names": [f"us-east-1{zone}" for zone in "abcdef"]},
    "data_aws_resourcegroupstaggingapi_resources": {"resource_tag_mapping_list": [{"resource_arn": "arn"}]},
}


def translate(source: Path, target: Path) -> None:
    """Writes a directory of Terraform files in Terraform's JSON syntax, with stand-ins for
    resources.
    """
    module = load(source)
    target.mkdir(parents=True)
    known = {(kind, name): DATA[kind] for kind, name in module.resources if kind.startswith("data_")}
    made = {key: body for key, body in module.resources.items() if key not in known}
    resources = {f"{kind}__{name}": stand_in(module, kind, body) for (kind, name), body in made.items()}
    answers = {f"{kind}__{name}": answer for (kind, name), answer in known.items()}
    whole = {
        "variable": {name: value(module, body, "variable") for name, body in module.variables.items()},
        "output": {name: value(module, body, "output") for name, body in module.outputs.items()},
        "module": {name: value(module, body, "module") for name, body in module.modules.items()},
        "locals": {name: value(module, body) for name, body in module.locals.items()} | answers,
        "resource": {"terraform_data": resources} if resources else {},
    }
    (target / "main.tf.json").write_text(json.dumps({name: part for name, part in whole.items() if part}))


def stand_in(module: Module, kind: str, body: dict) -> dict:
    given = {name: value(module, item) for name, item in body.items() if name not in META and not hidden(name)}
    meta = {name: value(module, body[name], name) for name in ("count", "for_each", "depends_on") if name in body}
    computed = dict.fromkeys(SCHEMA[kind]["attributes"])
    return meta | {"input": computed | given}


def hidden(name: str) -> bool:
    return name.startswith("__") or name == "dynamic"


def value(module: Module, item, within: str = ""):
    """Returns a value that the parser has returned, in Terraform's JSON syntax."""
    if isinstance(item, str):
        text = item[1:-1] if item.startswith('"') else item
        if within == "depends_on" or (within == "variable" and not item.startswith('"')):
            return bare(renamed(module, text, plain=within == "depends_on"))
        return renamed(module, text)
    if isinstance(item, list):
        if within == "lifecycle":
            return item
        return [value(module, part, within) for part in item]
    if isinstance(item, dict):
        found = {}
        for name, part in unquoted(item).items():
            inner = "depends_on" if name == "depends_on" else "variable" if within == "variable" and name == "type" else ""
            if not hidden(name):
                found[name] = value(module, part, inner)
        return found
    return item


def bare(text: str) -> str:
    """Removes the marks of a template, because references in `depends_on` and types are not
    templates.
    """
    return text.removeprefix("${").removesuffix("}")


def renamed(module: Module, text: str, plain: bool = False) -> str:
    """Replaces references to resources with references to their stand-ins."""

    def name(match: re.Match) -> str:
        word, rest = match[1], match[2]
        if word in ("var", "local", "module"):
            return match[0]
        steps = re.findall(r"\.\w+|\.\*|\[[^\[\]]*\]", rest)
        if word == "data":
            return f"local.data_{steps[0][1:]}__{steps[1][1:]}{''.join(steps[2:])}"
        label, *rest = steps
        stand_in = f"terraform_data.{word}__{label[1:]}"
        if plain:
            return stand_in
        index = [step for step in rest[:1] if INDEX.fullmatch(step)]
        if rest:
            return "".join([stand_in, *index, ".output", *rest[len(index) :]])
        body = module.resources[word, label[1:]]
        if "count" in body:
            return f"{stand_in}[*].output"
        return f"{{ for key, made in {stand_in} : key => made.output }}" if "for_each" in body else f"{stand_in}.output"

    return REFERENCE.sub(name, text)


def translate_all(source: Path, target: Path) -> None:
    """Translates every directory below `source`, and links the templates next to it."""
    for path in {file.parent for file in source.rglob("*.tf")}:
        translate(path, target / "terraform" / path.relative_to(source))
    for path in source.rglob("*.tftpl"):
        (target / "terraform" / path.relative_to(source)).symlink_to(path)
    (target / "policies").symlink_to(source.parent / "policies")
