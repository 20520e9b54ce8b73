"""Stand-in for deploy/verify/provision.py, called by verify.py. Requests each change, a resource to
make or to destroy, from the test.

On SIGINT or SIGTERM the stand-in ends after the current change, as Terraform does. After each
change it reports to the test whether to go on.
"""

import signal
import sys
from multiprocessing.connection import Client

interrupted = False


def interrupt(*_) -> None:
    global interrupted
    interrupted = True


signal.signal(signal.SIGINT, interrupt)
signal.signal(signal.SIGTERM, interrupt)
with Client(sys.argv[1], "AF_UNIX") as test:
    test.send(sys.argv[2:])
    while True:
        answer = test.recv()
        if isinstance(answer, int):
            sys.exit(answer)
        test.send(not interrupted)
