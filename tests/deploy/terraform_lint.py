"""Checks Terraform files against the provider's schema and against one another.

Providers come from no package registry, so `terraform validate` cannot run here. The checks here
cover its most frequent findings: arguments and blocks that do not exist, required ones that are
missing, and references without a declaration. Types of values are not checked. Called by
test_terraform.py.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import hcl2

SCHEMA = json.loads((Path(__file__).parent / "aws_schema.json").read_text())["types"]
POLICIES = Path(__file__).resolve().parents[2] / "deploy" / "policies"
# Arguments that Terraform itself accepts in every resource, data source and module.
META = {"count", "for_each", "depends_on", "lifecycle", "provider", "provisioner", "connection"}
MODULE_META = META | {"source", "version", "providers"}

REFERENCE = re.compile(r"(?<![\w.$\"/-])(var|local|module|data|aws_\w+)((?:\.\w+|\.\*|\[[^\[\]]*\])+)")
INDEX = re.compile(r"\[[^\[\]]*\]")
STEP = re.compile(r"\.(\w+)")
LOOP = re.compile(r"%\{ *for ([\w, ]+) in ")
TEMPLATE = re.compile(r'templatefile\("\$\{[\w.]+\}/([\w./-]+)", *\{')


@dataclass
class Module:
    """The declarations in one directory."""

    path: Path
    variables: dict[str, dict] = field(default_factory=dict)
    outputs: dict[str, dict] = field(default_factory=dict)
    locals: dict[str, object] = field(default_factory=dict)
    modules: dict[str, dict] = field(default_factory=dict)
    resources: dict[tuple[str, str], dict] = field(default_factory=dict)
    providers: list[dict] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.name


def load(path: Path) -> Module:
    """Reads all files of a directory. A data source is a resource whose type begins with `data_`.
    """
    module = Module(path)
    for file in sorted(path.glob("*.tf")):
        with file.open() as text:
            read = hcl2.load(text)
        for kind, known in (("variable", module.variables), ("output", module.outputs), ("module", module.modules)):
            for block in read.get(kind, []):
                known |= unquoted(block)
        for block in read.get("locals", []):
            module.locals |= {name: value for name, value in block.items() if not name.startswith("__")}
        for kind, prefix in (("resource", ""), ("data", "data_")):
            for block in read.get(kind, []):
                for name, labelled in unquoted(block).items():
                    module.resources |= {(prefix + name, label): body for label, body in unquoted(labelled).items()}
        module.providers += [body for block in read.get("provider", []) for body in unquoted(block).values()]
    return module


def unquoted(block: dict) -> dict:
    """Removes the quotes that the parser keeps around labels."""
    return {name.strip('"'): value for name, value in block.items() if not name.startswith("__")}


def lint(root: Path) -> list[str]:
    """Returns the faults in all directories below `root` that contain Terraform files."""
    modules = {path: load(path) for path in sorted({file.parent.resolve() for file in root.rglob("*.tf")})}
    found = []
    for module in modules.values():
        for (kind, name), body in module.resources.items():
            where = f"{module.name}: {kind}.{name}"
            if kind in SCHEMA:
                found += against_schema(where, body, SCHEMA[kind]["arguments"], META)
            else:
                found.append(f"{where}: no such type in aws_schema.json; scripts/aws_schema.py adds new ones")
        found += [*calls(module, modules), *references(module, modules), *templates(module)]
    return found


def is_block(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) and "__is_block__" in item for item in value)


def blocks(body: dict) -> Iterator[tuple[str, dict]]:
    """Yields the blocks in a body, by name. Includes blocks that `dynamic` makes."""
    for name, value in body.items():
        if name == "dynamic":
            for block in value:
                for label, made in unquoted(block).items():
                    yield label, made["content"][0]
        elif is_block(value):
            yield from ((name, item) for item in value)


def against_schema(where: str, body: dict, schema: dict, meta: set[str]) -> Iterator[str]:
    """Yields arguments that are unknown or missing, and blocks that are written as arguments or the
    reverse.
    """
    inner = list(blocks(body))
    plain = {name for name, value in body.items() if not is_block(value) and name != "dynamic"}
    given = {name for name in plain | {name for name, _ in inner} if not name.startswith("__")}
    for name in sorted(given - schema.keys() - meta):
        yield f"{where}: there is no argument or block `{name}`"
    for name, rules in schema.items():
        if rules.get("required") and name not in given:
            yield f"{where}: `{name}` is required"
        if name in given and ("block" in rules) != (name not in plain):
            yield f"{where}: `{name}` is {'a block' if 'block' in rules else 'an argument'}"
    for name, item in inner:
        if "block" in schema.get(name, {}):
            yield from against_schema(f"{where}.{name}", item, schema[name]["block"], set())


def calls(module: Module, modules: dict[Path, Module]) -> Iterator[str]:
    """Yields calls of modules that set variables which the module lacks, or that omit variables
    which it needs.
    """
    for name, body in module.modules.items():
        where = f"{module.name}: module.{name}"
        called = modules.get((module.path / body["source"].strip('"')).resolve())
        if called is None:
            yield f"{where}: there is no directory {body['source']}"
            continue
        given = {argument for argument in body if not argument.startswith("__")} - MODULE_META
        needed = {variable for variable, rules in called.variables.items() if "default" not in rules}
        yield from (f"{where}: there is no variable `{argument}`" for argument in sorted(given - called.variables.keys()))
        yield from (f"{where}: `{variable}` is required" for variable in sorted(needed - given))


def texts(value: object) -> Iterator[str]:
    """Yields all strings in a value that the parser has returned."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            if name != "__comments__":
                yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def used(module: Module) -> Iterator[tuple[str, list[str]]]:
    """Yields each reference in a module: its first word, and the names that follow."""
    declared = [module.locals, module.outputs, module.modules, list(module.resources.values()), module.providers]
    for text in texts([*declared, module.variables]):
        for match in REFERENCE.finditer(text):
            yield match[1], STEP.findall(INDEX.sub("", match[2]))


def references(module: Module, modules: dict[Path, Module]) -> Iterator[str]:
    """Yields references without a declaration, and variables that are never used."""
    seen = set()
    for word, names in used(module):
        dotted = f"{module.name}: {'.'.join([word, *names])}"
        if word in ("var", "local"):
            seen.add(f"{word}.{names[0]}")
            if names[0] not in (module.variables if word == "var" else module.locals):
                yield f"{dotted}: not declared"
        elif word == "module":
            body = module.modules.get(names[0])
            called = body and modules.get((module.path / body["source"].strip('"')).resolve())
            if not called or names[1:] and names[1] not in called.outputs:
                yield f"{dotted}: not declared"
        else:
            kind, label, *attribute = [f"data_{names[0]}", *names[1:]] if word == "data" else [word, *names]
            if (kind, label) not in module.resources:
                yield f"{dotted}: not declared"
            elif attribute and kind in SCHEMA and attribute[0] not in SCHEMA[kind]["attributes"]:
                yield f"{dotted}: {kind} has no attribute `{attribute[0]}`"
    for kind, declared in (("var", module.variables), ("local", module.locals)):
        yield from (f"{module.name}: {kind}.{name} is not used" for name in declared if f"{kind}.{name}" not in seen)


def templates(module: Module) -> Iterator[str]:
    """Yields missing templates, and templates that use names which the caller does not pass."""
    for file in sorted(module.path.glob("*.tf")):
        text = file.read_text()
        for call in TEMPLATE.finditer(text):
            path = next((p for p in (module.path / call[1], POLICIES / call[1]) if p.is_file()), None)
            if path is None:
                yield f"{module.name}: template {call[1]} does not exist"
                continue
            given = set(re.findall(r"(\w+) *= ", braces(text[call.end() - 1 :])))
            template = path.read_text()
            loops = {name for names in LOOP.findall(template) for name in re.findall(r"\w+", names)}
            needed = set(re.findall(r"\$\{(?:jsonencode\()?(\w+)\)?\}", template)) - loops
            yield from (f"{module.name}: template {call[1]} needs `{name}`" for name in sorted(needed - given))


def braces(text: str) -> str:
    """Returns the text up to the brace that closes its first brace."""
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return text[:index]
    return text
