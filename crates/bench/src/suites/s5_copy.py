"""Copies a file with shutil.copy or a directory with shutil.copytree, as the source of S5 did.
Prints metrics.

usage: s5_copy.py SOURCE DESTINATION
"""

import json
import os
import shutil
import sys
import time

source, destination = sys.argv[1:]
began = time.perf_counter()
if os.path.isdir(source):
    shutil.copytree(source, destination)
else:
    os.makedirs(destination, exist_ok=True)
    shutil.copy(source, destination)
print(json.dumps({"seconds": time.perf_counter() - began}))
