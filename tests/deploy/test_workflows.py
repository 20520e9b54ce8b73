"""The workflows of continuous integration, and the forms of issues: checked, not run."""

import json
import re
import subprocess
from pathlib import Path

import yaml
from serving import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_actionlint_finds_nothing():
    path = subprocess.run(["go", "env", "GOPATH"], capture_output=True, text=True, check=True).stdout.strip()
    lint = subprocess.run(
        [Path(path) / "bin" / "actionlint", "-no-color", *WORKFLOWS], capture_output=True, text=True, check=False
    )
    assert lint.returncode == 0, lint.stdout + lint.stderr
    assert len(WORKFLOWS) >= 3


def test_actionlint_finds_a_mistake(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on: ubuntu-24.04", "runs-on: ${{ matrix.os }}"))
    path = subprocess.run(["go", "env", "GOPATH"], capture_output=True, text=True, check=True).stdout.strip()
    assert subprocess.run([Path(path) / "bin" / "actionlint", wrong], capture_output=True, check=False).returncode == 1


def test_workflows_call_targets_of_the_makefile_and_pin_nothing_secret():
    called = set()
    for path in WORKFLOWS:
        text = path.read_text()
        called |= set(re.findall(r"\bmake ([a-z-]+)", text))
        workflow = yaml.safe_load(text)
        assert "permissions" in workflow, f"{path.name} has the rights of the default token"
        for job in workflow["jobs"].values():
            assert job["timeout-minutes"] <= 180
    assert {"check", "test", "test-core", "fuzz", "dist"} <= called
    assert called <= targets(), called - targets()


def test_forms_of_issues_have_what_github_demands():
    for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        if path.name == "config.yml":
            assert all({"name", "url", "about"} <= set(link) for link in form["contact_links"])
            continue
        assert {"name", "description", "body"} <= set(form), path.name
        for field in form["body"]:
            assert field["type"] in {"markdown", "input", "textarea", "dropdown", "checkboxes"}
            assert field["type"] == "markdown" or {"id", "attributes"} <= set(field), path.name


def test_the_container_for_development_has_the_oldest_supported_rust():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    least = re.search(r'rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text())[1]
    versions = [options["version"] for name, options in container["features"].items() if "rust" in name]
    assert versions == [least]
