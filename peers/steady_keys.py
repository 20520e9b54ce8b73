"""Lists a bucket while other keys come and go: `steady_keys.py ROOT GUESTS COMMAND...`.

COMMAND prints the keys below ROOT, the directory that is served, as `ls --format ndjson` does.
Meanwhile GUESTS other keys are added and removed, over and over. Each guest sorts directly after
one of the keys. Prints the number of `mistakes`: keys that existed throughout and were not listed exactly
once, guests that were listed more than once, and names that were never made.
"""

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path


def change(guests: list[Path], stop: threading.Event) -> None:
    """Adds and removes `guests` over and over until `stop` is set."""
    while not stop.is_set():
        for guest in guests:
            guest.write_bytes(b"guest")
        for guest in guests:
            guest.unlink()


def main() -> int:
    root, count, command = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    files = sorted(path for path in root.rglob("*") if path.is_file())
    chosen = files[:: max(1, len(files) // count)][:count]
    guests = [path.with_name(f"{path.name}-guest") for path in chosen]
    stop = threading.Event()
    changing = threading.Thread(target=change, args=(guests, stop))
    changing.start()
    try:
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        stop.set()
        changing.join()
    listed = Counter(json.loads(line)["name"] for line in shown.splitlines())
    mistakes = sum(listed.pop(str(path.relative_to(root)), 0) != 1 for path in files)
    known = {str(path.relative_to(root)) for path in guests}
    mistakes += sum(name not in known or times > 1 for name, times in listed.items())
    print(json.dumps({"mistakes": mistakes, "keys": len(files)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
