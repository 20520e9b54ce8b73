"""What is compared: the rows of docs/benchmarks.md, in order.

A row is a function of the bench; its name on the command line is the function's with hyphens, its title the first line
of its text. Destinations are on tmpfs unless a row says otherwise, so that no disk hides a difference.
"""

import subprocess
from collections.abc import Callable

import curls
import data
import rows_layout
import rows_local
import rows_mount
import rows_python
from context import Bench
from measure import Contender, Goal
from servers import AWS, CLEAN, certificates

GIB = 1 << 30


def loopback_own(bench: Bench) -> None:
    """1 GiB, own serve to own cp, tmpfs to tmpfs"""
    file = data.big(bench.directory("source") / "big.bin", GIB)
    serve, nginx = bench.servers.serve(file.parent), bench.servers.nginx(file.parent)
    vsftpd = bench.servers.vsftpd(file.parent)
    from_nginx = f"{nginx.url}/big.bin"
    ours = [str(bench.firstbyte), "-q", "cp"]
    bench.compare(
        [
            Contender("firstbyte", lambda d: [*ours, f"{serve.url}/big.bin", f"{d}/"]),
            Contender("nginx + curl", lambda d: ["curl", "-sfo", str(d / "big.bin"), from_nginx]),
            Contender("vsftpd + curl", lambda d: ["curl", "-sfo", str(d / "big.bin"), f"{vsftpd.url}/big.bin"]),
            Contender("nginx + wget", lambda d: ["wget", "-qP", str(d), from_nginx]),
            Contender("nginx + aria2 -x8", lambda d: ["aria2c", "-q", "-x8", "-s8", "-d", str(d), from_nginx]),
            Contender("local cp", lambda d: ["cp", str(file), str(d / "big.bin")]),
        ],
        [Goal("nginx + curl", 0.80), Goal("vsftpd + curl", 0.75)],
        data.Same(file),
    )


def serve_whole(bench: Bench) -> None:
    """serve alone: 1 GiB by curl to /dev/null"""
    bench.against_nginx(lambda server: ["curl", "-sfo", "/dev/null", f"{server.url}/data/big.bin"])


def serve_ranges(bench: Bench) -> None:
    """serve alone: 1 GiB by 8 clients in ranges of 8 MiB"""
    bench.against_nginx(lambda server: curls.ranges(bench.stage, server, curls.Before.NOTHING))


def serve_after_others(bench: Bench) -> None:
    """serve alone: the same, each range after a HEAD, a listing and a PUT on its connection"""
    bench.against_nginx(lambda server: curls.ranges(bench.stage, server, curls.Before.HEAD_LIST_PUT))


def minio_big(bench: Bench) -> None:
    """1 GiB from MinIO"""
    tools, file = bench.minio_with_big(GIB)
    bench.compare(tools.download("big.bin"), [Goal("s5cmd", 0.85), Goal("aws-cli", 0.35)], data.Same(file))


def minio_checked(bench: Bench) -> None:
    """1 GiB with a checksum over the whole from MinIO (firstbyte and aws-cli verify it)"""
    tools, file = bench.minio_with_big(GIB)
    subprocess.run(tools.ours("cp", str(file), "s3://bench/checked.bin"), env=CLEAN | AWS, check=True)
    bench.compare(tools.download("checked.bin"), [Goal("s5cmd", 1.0), Goal("aws-cli", 0.35)], data.Same(file))


def minio_several(bench: Bench) -> None:
    """4 objects of 512 MiB from MinIO"""
    tools, files = bench.minio(), bench.directory("several")
    for number in range(4):
        data.big(files / f"{number}.bin", 512 * data.MIB)
    tools.do("cp", f"{files}/", "s3://bench/several/")
    bench.compare(tools.download_many("several"), [Goal("s5cmd", 1.0)], data.Same(files))


def minio_tls(bench: Bench) -> None:
    """1 GiB from MinIO over TLS"""
    tools, file = bench.minio_with_big(GIB, certificates(bench.stage / "certificates"))
    bench.compare(tools.download("big.bin"), [Goal("s5cmd", 0.85)], data.Same(file))


def minio_small(bench: Bench) -> None:
    """1,000 objects of 10 to 100 KB from MinIO to tmpfs"""
    tools, files = bench.minio_with_small(1000)
    bench.compare(tools.download_many("small"), [Goal("s5cmd", 0.70)], data.Same(files))


def minio_small_disk(bench: Bench) -> None:
    """1,000 objects of 10 to 100 KB from MinIO to ext4"""
    tools, files = bench.minio_with_small(1000)
    bench.compare(tools.download_many("small"), [Goal("s5cmd", 0.70)], data.Same(files), stage=bench.disk())


def upload_big(bench: Bench) -> None:
    """1 GiB to MinIO"""
    tools, file = bench.minio_with_big(GIB)
    bench.compare(tools.upload(file), [Goal("s5cmd", 0.90)], bench.uploaded(tools, file))


def upload_small(bench: Bench) -> None:
    """1,000 files of 10 to 100 KB to MinIO"""
    tools, files = bench.minio_with_small(1000)
    bench.compare(tools.upload_many(files), [Goal("s5cmd", 0.90)], bench.uploaded(tools, files))


def first_byte(bench: Bench) -> None:
    """Start to first byte: cat of a 3-byte object from MinIO"""
    tools, path = bench.minio(), bench.stage / "three"
    path.write_text("abc")
    tools.do("cp", str(path), "s3://bench/three")
    contenders = [
        Contender("firstbyte", lambda d: tools.ours("cat", "s3://bench/three"), AWS),
        Contender("s5cmd", lambda d: tools.s5("cat", "s3://bench/three"), AWS),
        Contender("aws-cli", lambda d: [*tools.aws("s3", "cp", "s3://bench/three", "-")], tools.aws_env()),
    ]
    bench.compare(contenders, [Goal("s5cmd", 0.75)], data.unchecked, pairs=15)


def memory(bench: Bench) -> None:
    """Peak memory of a copy of 1, 10 and 50 GiB (sparse source, copied to disk)"""
    stage = bench.disk()
    for gib in (1, 10, 50):
        bench.peak_of_sparse(stage, gib, most=32 * data.MIB)


def function_big(bench: Bench) -> None:
    """256 MiB behind the link `function` (0.6 Gbit/s in all, 20 ms)"""
    bench.behind_link_big("function", 256 * data.MIB, rate=75_000_000)


def region_big(bench: Bench) -> None:
    """1 GiB behind the link `region` (30 ms, 40 MB/s a connection, 400 MB/s in all)"""
    bench.behind_link_big("region", GIB, rate=400_000_000)


def function_small(bench: Bench) -> None:
    """1,000 objects of 10 to 100 KB behind the link `function`"""
    bench.behind_link_small("function", seconds=None)


def region_small(bench: Bench) -> None:
    """1,000 objects of 10 to 100 KB behind the link `region`"""
    bench.behind_link_small("region", seconds=1.0)


def region_stalls(bench: Bench) -> None:
    """1 GiB behind `region`, 2 % of the requests stalled for 5 s, against the same unstalled"""
    bench.stalls("region", GIB, most=1.3, reread=0.05)


def region_list(bench: Bench) -> None:
    """listing 200,000 keys behind `region`"""
    bench.behind_link_list("region", 200_000, [Goal("aws s3 ls --recursive", 1 / 4), Goal("s5cmd ls", 1 / 3)])


def sync_unchanged(bench: Bench) -> None:
    """sync of 100,000 unchanged objects, against the listing alone"""
    bench.sync_unchanged(100_000, most=1.2)


def many_clients(bench: Bench) -> None:
    """1,000 clients together, 16 MiB each, beside 1,000 half-open requests"""
    bench.many_clients(1000, 16 * data.MIB)


ROWS: list[Callable[[Bench], None]] = [
    loopback_own, serve_whole, serve_ranges, serve_after_others,
    minio_big, minio_several, minio_checked, minio_tls, minio_small, minio_small_disk, upload_big, upload_small,
    first_byte, memory,
    function_big, region_big, function_small, region_small, region_stalls,
    region_list, sync_unchanged, many_clients,
    *rows_local.ROWS, *rows_layout.ROWS, *rows_python.ROWS, *rows_mount.ROWS,
]  # fmt: skip


def name_of(row: Callable[[Bench], None]) -> str:
    """What a row is called on the command line."""
    return row.__name__.replace("_", "-")
