"""Extracts the schema of the types in deploy/terraform from the AWS provider's generated bindings.

    pip download --no-deps cdktn-provider-aws==25.8.0
    scripts/aws_schema.py cdktn_provider_aws-25.8.0-py3-none-any.whl

Writes tests/deploy/aws_schema.json, against which tests/deploy checks every file. Providers come
from no package registry, and the bindings are generated from the provider's own schema: each
argument is a keyword of a class, required if it has no default, and a block if its description says
so.
"""

import ast
import json
import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TERRAFORM = ROOT / "deploy" / "terraform"
OUTPUT = ROOT / "tests" / "deploy" / "aws_schema.json"

USED = re.compile(r'^(resource|data) "(aws_\w+)"', re.MULTILINE)
TITLE = re.compile(r"^# `(\w+)`", re.MULTILINE)
PROVIDER = re.compile(r"hashicorp/aws/([\d.]+)/docs")

# Arguments that Terraform itself defines for every resource.
META = {"connection", "count", "depends_on", "for_each", "lifecycle", "provider", "provisioners"}


def used() -> set[str]:
    """Returns the types that the files use. Data sources are named `data_aws_...`."""
    found = set()
    for path in TERRAFORM.rglob("*.tf"):
        found |= {("data_" if kind == "data" else "") + name for kind, name in USED.findall(path.read_text())}
    return found


def modules(wheel: zipfile.ZipFile, types: set[str]) -> dict[str, str]:
    """Returns the source of each type's module."""
    found = {}
    for name in wheel.namelist():
        if name.endswith("/__init__.py"):
            with wheel.open(name) as file:
                title = TITLE.search(file.read(200).decode(errors="replace"))
            if title and title[1] in types:
                found[title[1]] = wheel.read(name).decode()
    return found


class Module:
    """The classes for one type: its resource, its configuration and its blocks."""

    def __init__(self, source: str):
        tree = ast.parse(source)
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.config = next(name for name, node in self.classes.items() if is_config(node))
        self.resource = self.config.removesuffix("Config")

    def arguments(self, name: str) -> dict:
        """Returns the arguments of a configuration or block. For each: whether it is required, and,
        if it is a block, the block's own arguments.
        """
        init = next(node for node in self.classes[name].body if getattr(node, "name", "") == "__init__")
        text = ast.get_docstring(init) or ""
        found = {}
        for argument, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True):
            if name == self.config and argument.arg in META:
                continue
            # A name that is a keyword of Python has an underscore appended.
            key = argument.arg.rstrip("_")
            found[key] = {"required": True} if default is None else {}
            if f":param {argument.arg}: {key} block" in text:
                found[key]["block"] = self.arguments(self.block(ast.unparse(argument.annotation)))
        return found

    def block(self, annotation: str) -> str:
        """Returns the class of this module that an argument's type names."""
        return next(name for name in re.findall(r"\w+", annotation) if name in self.classes)

    def attributes(self) -> list[str]:
        """Returns the names that other resources may refer to: arguments and computed values."""
        names = [node.name for node in self.classes[self.resource].body if is_property(node)]
        return sorted(name.rstrip("_") for name in names if not name.endswith("_input"))


def is_config(node: ast.ClassDef) -> bool:
    return any(getattr(base, "attr", "") == "TerraformMetaArguments" for base in node.bases)


def is_property(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any("builtins.property" in ast.unparse(d) for d in node.decorator_list)


def extract(path: str) -> dict:
    types = used()
    with zipfile.ZipFile(path) as wheel:
        sources = modules(wheel, types)
    if missing := sorted(types - sources.keys()):
        sys.exit(f"aws_schema.py: {path} has no {', '.join(missing)}: misspelt in deploy/terraform, or newer than it")
    versions = {version for source in sources.values() for version in PROVIDER.findall(source)}
    schema = {}
    for name in sorted(sources):
        module = Module(sources[name])
        schema[name] = {"arguments": module.arguments(module.config), "attributes": module.attributes()}
    return {"provider": ", ".join(sorted(versions)), "bindings": Path(path).name, "types": schema}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: aws_schema.py WHEEL of cdktn-provider-aws")
    # One line per type, so that a change of a type changes one line.
    schema = extract(sys.argv[1])
    lines = ",\n".join(
        f'  "{name}": {json.dumps(value, separators=(",", ":"))}' for name, value in schema["types"].items()
    )
    OUTPUT.write_text(
        f'{{\n "provider": "{schema["provider"]}",\n "bindings": "{schema["bindings"]}",\n "types": {{\n{lines}\n }}\n}}\n'
    )
    print(f"{len(schema['types'])} types of provider {schema['provider']}")
