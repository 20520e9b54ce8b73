"""Writes what was measured: results.jsonl, a line a run, and docs/benchmarks.md, a section a row."""

import json
import os
import platform
import re
import shutil
import subprocess
from dataclasses import asdict
from datetime import date
from pathlib import Path

from context import Result
from tools import AWS_CLI, S5CMD

VERSIONS = {
    "nginx": ["nginx", "-v"],
    "vsftpd": ["sh", "-c", "vsftpd -v 0>&1"],
    "curl": ["curl", "--version"],
    "wget": ["wget", "--version"],
    "aria2": ["aria2c", "--version"],
    "rclone": ["rclone", "version"],
    "s5cmd": [S5CMD, "version"],
    "aws-cli": [AWS_CLI, "--version"],
    "minio": ["minio", "--version"],
}


def version(command: list[str]) -> str:
    """The first line a program says about itself."""
    if not shutil.which(command[0]):
        return "not installed"
    done = subprocess.run(command, capture_output=True, text=True)
    return ((done.stdout + done.stderr).strip().splitlines() or ["?"])[0]


def machine() -> str:
    """What the figures were measured on."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) / (1 << 20)
    name = cpu[1] if cpu else platform.machine()
    # More than one busy process a core would be other people's work: it shows whether ratios can be trusted.
    load = f"load average {os.getloadavg()[2]:.1f} over the last 15 minutes"
    return f"{os.cpu_count()} x {name}, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}; {load}"


def lines_of(result: Result) -> str:
    """The JSONL of one row: a line for each run, one for each verdict."""
    lines = []
    for series in result.series:
        for sample in series.samples:
            lines.append({"row": result.row, "contender": series.name, **asdict(sample)})
        if series.error:
            lines.append({"row": result.row, "contender": series.name, "error": series.error})
    lines += [{"row": result.row, "verdict": asdict(verdict)} for verdict in result.verdicts]
    return "".join(json.dumps(line) + "\n" for line in lines)


def section(result: Result) -> str:
    """One row for people."""
    out = [f"## {result.title}", ""]
    if result.series:
        out += ["| contender | median s | min - max | CPU s | peak MB | runs |", "| --- | --- | --- | --- | --- | --- |"]
    for series in result.series:
        if not series.samples:
            out.append(f"| {series.name} | failed: {series.error} | | | | 0 |")
            continue
        low, high = series.spread()
        cpu = sorted(s.cpu_seconds for s in series.samples)[len(series.samples) // 2]
        out.append(
            f"| {series.name} | {series.median():.3f} | {low:.3f} - {high:.3f} | {cpu:.2f} "
            f"| {series.peak_bytes() / 1e6:.0f} | {len(series.samples)} |"
        )
    out += result.table
    if result.series or result.table:
        out.append("")
    for verdict in result.verdicts:
        out.append(f"- {verdict.what}: **{verdict.value}**, goal {verdict.goal}: {'met' if verdict.met else 'SHORT'}")
    out += [f"- {note}" for note in result.notes]
    commands = [s for s in result.series if len(s.command) < 400]
    if commands:
        out += ["", "<details><summary>commands</summary>", "", "```"]
        out += [f"{s.name}: {s.command}" for s in commands]
        out += ["```", "</details>"]
    return "\n".join(out) + "\n"


def page(results: list[Result], firstbyte: Path) -> str:
    """The whole of docs/benchmarks.md."""
    verdicts = [v for r in results for v in r.verdicts]
    met = sum(v.met for v in verdicts)
    versions = "\n".join(f"- {name}: {version(command)}" for name, command in VERSIONS.items())
    head = f"""# Benchmarks

Written by `make bench` on {date.today()}; {met} of {len(verdicts)} goals met. Everything is **measured** on one machine over
loopback (behind our own link proxy where a row says so): {machine()}.
Contenders of a row run alternately, in another order each round, after one unmeasured round; every run has a fresh
destination, and warm sources (page cache). Content is compared with the source by SHA-256 after each run, outside the timing. Peak memory is the client
process's largest resident set. A ratio is of medians, ours over the peer's: below 1 is faster.
A goal that was missed is marked SHORT.

- {version([str(firstbyte), "--version"])}
{versions}

"""
    return head + "\n".join(section(result) for result in results)
