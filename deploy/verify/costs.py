"""Estimates the cost of a run: quantities from here, list prices from `firstbyte advise prices`.

The quantities are upper estimates for the default suites, and name how they come about.
"""

import json
import subprocess
from argparse import Namespace
from dataclasses import dataclass

from suites import size_of

GIB = 2**30
# Number of functions that start at once, as published, and the sizes of the functions in GiB.
STARTS = 20
MEMORIES = (512 / 1024, 1, 3008 / 1024)
# Bytes per second that one function gets: 0.6 Gbit/s.
FUNCTION_RATE = 75e6
# Number of reads of the whole object in a start: download, open and mounted.
WHOLE_READS = 3


@dataclass
class Item:
    """A quantity that is billed."""

    what: str
    key: str
    quantity: float


def items(options: Namespace) -> list[Item]:
    """Returns the quantities that the chosen suites are billed for."""
    size = size_of(options.size)
    found = []
    if {"s1", "s5"} & set(options.suite):
        seconds = STARTS * WHOLE_READS * size / FUNCTION_RATE
        reads = STARTS * len(MEMORIES) * size / GIB
        found += [
            Item(f"{STARTS} functions of 3 sizes read {options.size} {WHOLE_READS} times", "lambda/x86", seconds * sum(MEMORIES)),
            Item("their /tmp of 6 GiB", "lambda/tmp", seconds * len(MEMORIES) * 5.5),
            Item(f"{STARTS} x 3 of them read it from EFS", "efs/elastic-read", reads),
            Item("EFS is filled once", "efs/elastic-write", size / GIB),
        ]
    if "s3" in options.suite:
        hours = options.limit / 60
        found += [
            Item("4 instances until the time limit", "ec2/m6i.xlarge", 4 * hours),
            Item("jobs read 50 GiB from EFS", "efs/elastic-read", 50),
        ]
    return found


def price(key: str, options: Namespace) -> dict | None:
    """Returns the price of a key in the region, or `None` if it is not known."""
    command = [options.firstbyte, "--json", "--region", options.region, "advise", "prices", key]
    done = subprocess.run(command, capture_output=True, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else []
    return next((row for row in found if row["key"] == key), None)


def table(options: Namespace) -> str:
    """Returns the table that is shown before anything is made."""
    lines, total, missing = [], 0.0, False
    for item in items(options):
        row = price(item.key, options)
        if row is None:
            missing = True
            lines.append(f"{item.what:<50} {item.quantity:>10.0f} x  unknown ({item.key} in {options.region})")
            continue
        total += item.quantity * row["usd"]
        lines.append(
            f"{item.what:<50} {item.quantity:>10.0f} x {row['usd']:g} $/{row['unit']} = "
            f"{item.quantity * row['usd']:.2f}  ({row['day']}; {row['source']})"
        )
    bound = "at least" if missing else "about"
    return "\n".join([*lines, f"{bound} {total:.2f} USD by list prices. Storage for some hours, logs and requests: cents."])
