"""A job on files: reads the files of a directory, one after another, then computes.

Takes the names and sizes from the original directory, so that only opening and reading go through
the mount."""
import argparse
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--passes", type=int, default=1)
parser.add_argument("--cpu", type=float, default=0.0, help="processor seconds")
parser.add_argument("original")
parser.add_argument("mounted")
args = parser.parse_args()

sizes = {name: os.path.getsize(os.path.join(args.original, name)) for name in sorted(os.listdir(args.original))}
for _ in range(args.passes):
    for name, size in sizes.items():
        file = os.open(os.path.join(args.mounted, name), os.O_RDONLY)
        left = size
        while left > 0:
            left -= len(os.read(file, min(left, 1 << 20)))
        os.close(file)
end = time.process_time() + args.cpu
while time.process_time() < end:
    pass
