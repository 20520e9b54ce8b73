"""Makes a results file from a seed, with everything that a report can show."""

import json
import math
import random

COLD = {"wanted": "cold", "held": True, "evidence": ["before: 0 of 268435456 bytes in the page cache (cachestat)"]}


def noise(source, spread=0.03):
    """Returns a factor that imitates timing noise. It is log-normal, and one run in twenty is slow.
    """
    return math.exp(source.gauss(0, spread)) * (1.6 if source.random() < 0.05 else 1)


def run(source, case, contender, number, seconds, **more):
    taken = seconds * noise(source)
    size = more.pop("bytes", 268435456)
    return {
        "record": "run", "case": case, "contender": contender, "round": number, "seconds": taken, "bytes": size,
        "user_seconds": taken * 0.3, "system_seconds": taken * 0.5, "peak_memory_bytes": 12_000_000 + source.randrange(10**6),
        "wire_bytes": int(size * 1.01), "requests": 33, "cache": COLD,
        "noise": {"other_cpu_seconds": taken * source.choice([0.01, 0.02, 0.3]), "steal_seconds": 0.0}, **more,
    }


def progress(source, seconds, size):
    """Returns the progress of a run as pairs of seconds and bytes so far: first a burst, then a
    lower rate.
    """
    points, done = [(0.0, 0)], 0.0
    for step in range(1, 61):
        done += (3 if step < 15 else 1) * source.uniform(0.7, 1.3)
        points.append((seconds * step / 60, done))
    return [(round(t, 4), int(size * b / done)) for t, b in points]


def copy_case(source, rounds):
    times = {"firstbyte cp": 3.6, "s5cmd": 3.82, "aws-cli": 8.9, "curl, one connection with a long name <b>": 12.4}
    runs = []
    for number in range(rounds + 1):
        for name, seconds in source.sample(list(times.items()), len(times)):
            made = run(source, "copy", name, number, seconds * (0.3 if name == "s5cmd" and number > 6 else 1), basis="emulated")
            if name == "s5cmd" and number > 6:
                made["marks"] = ["268435456 of 268435456 bytes were in the page cache before the run."]
                made["cache"] = COLD | {"held": False}
            if name == "aws-cli" and number == 3:
                made |= {"outcome": "failed", "error": "exit code 1: </script><script>document.title='owned'</script>"}
            if number == 2:
                made["throughput"] = progress(source, made["seconds"], made["bytes"])
            runs.append(made)
    lines = [{"name": name, "command": f"{name} s3://bench/big.bin $OUT"} for name in times]
    goals = [
        {"metric": "seconds", "over": "s5cmd", "at_most": 0.9}, {"metric": "seconds", "over": "aws-cli", "at_most": 0.5},
        {"metric": "peak_memory_bytes", "at_most": 40_000_000}, {"metric": "first_byte_seconds", "at_most": 0.1},
    ]
    return {
        "name": "copy", "title": "256 MiB object, cold, through a function's network", "subject": "firstbyte cp",
        "notes": ["Every run has a fresh destination; content is checked by SHA-256 outside the timing."],
        "stand_ins": ["link function: 0.6 Gbit/s, round trip 20 ms, burst 64 MiB at 1 Gbit/s"], "contenders": lines,
        "goals": goals, "rounds": rounds,
    }, runs


def jobs_case(source, rounds):
    lines, runs = [], []
    for tool, factor in [("firstbyte", 1.0), ("s5cmd", 1.3)]:
        for jobs in [1, 2, 4, 8]:
            name = f"{tool}, {jobs} job{'s' * (jobs > 1)}"
            lines.append({"name": name, "parameters": {"jobs": jobs}, "workload": "rand-read"})
            for number in range(rounds + 1):
                seconds = 2.0 * factor * (0.3 + 0.7 * jobs)
                each = [{"seconds": seconds * noise(source), "bytes": 10**8} for _ in range(jobs)] if jobs > 1 else []
                runs.append(run(source, "jobs", name, number, seconds, jobs=each))
    return {"name": "jobs", "title": "Random reads by 1 to 8 jobs on one shared rate", "contenders": lines, "rounds": rounds,
            "goals": [{"metric": "least_share", "of": "firstbyte, 4 jobs", "at_least": 0.8}]}, runs


def metrics_case(source, rounds):
    lines, runs = [], []
    for tool, ready in [("open lazily", 0.03), ("download, then open", 3.7)]:
        for mebibytes in [64, 256, 1024]:
            name = f"{tool}, {mebibytes} MiB"
            lines.append({"name": name, "parameters": {"size_bytes": mebibytes << 20}})
            for number in range(rounds + 1):
                seconds = ready * (1 if ready < 1 else mebibytes / 256)
                metrics = {"ready_seconds": seconds / 3, "first_byte_seconds": seconds / 2}
                runs.append(run(source, "open", name, number, seconds, metrics=metrics, storage_bytes=mebibytes << 20))
    return {"name": "open", "title": "From open to the first byte", "contenders": lines, "rounds": rounds, "goals": []}, runs


def results(seed=1, rounds=10):
    """Returns the text of a results file."""
    source = random.Random(seed)
    made = [make(source, rounds) for make in (copy_case, jobs_case, metrics_case)]
    header = {
        "record": "header", "schema": 1, "firstbyte": "0.1.0", "command": ["bench", "run", "s3://bench/big.bin", "--out", "made.jsonl"],
        "plan_digest": "made", "started": "2026-11-23T09:40:00Z",
        "machine": {"cpu": "Example(R) Processor @ 2.60GHz", "processors": 2, "memory_bytes": 25769803776, "kernel": "Linux 6.1.0",
                    "architecture": "x86_64", "versions": {"s5cmd": "v2.3.0", "aws-cli": "2.15"}, "cgroup": ["memory.max=8589934592"],
                    "mounts": ["/data: ext4 on /dev/sda (rw,relatime)"]},
        "cases": [case for case, _ in made],
    }
    lines = [header, *(line for _, runs in made for line in runs)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def many(runs, seed=1):
    """Returns the text of a results file with about `runs` runs of one case."""
    source = random.Random(seed)
    names = ["firstbyte", "s5cmd", "rclone", "aws-cli"]
    case = {"name": "many", "title": "Very many runs", "contenders": [{"name": name} for name in names], "rounds": runs // 4}
    header = {"record": "header", "schema": 1, "firstbyte": "0.1.0", "started": "2026-11-23T09:40:00Z", "cases": [case]}
    lines = [run(source, "many", names[at % 4], at // 4 + 1, 1 + at % 4) for at in range(runs)]
    return "".join(json.dumps(line) + "\n" for line in [header, *lines])
