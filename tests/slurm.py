"""A real Slurm on this machine: munged, slurmctld and several slurmd, with their own files and
ports.

Nothing runs as a service of the system, and everything ends with the block. The nodes are slurmd
processes with different names (`-N`), as Slurm's developers test it.
"""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

from waiting import AT_ONCE, WAIT_LIMIT, until

# Number of seconds without a message after which slurmctld gives a node up, and starts its jobs on
# other nodes.
SILENCE = 5
PATH = os.environ["PATH"] + os.pathsep + "/usr/sbin"


def free_ports(count: int) -> list[int]:
    """Returns ports on which no program listens."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]


class Cluster:
    """A running cluster. `run` runs its commands."""

    def __init__(self, stage: Path, nodes: int, names: list[str] | None):
        self.stage = stage
        self.nodes = names or [f"node{number}" for number in range(nodes)]
        self.daemons: dict[str, subprocess.Popen] = {}
        self.env = os.environ | {"SLURM_CONF": str(stage / "slurm.conf"), "PATH": PATH}

    def configure(self) -> None:
        """Writes the configuration. A node runs one job at a time."""
        stage, (port, *ports) = self.stage, free_ports(1 + len(self.nodes))
        user = subprocess.check_output(["id", "-un"], text=True).strip()
        lines = [
            "ClusterName=firstbyte",
            f"SlurmctldHost={socket.gethostname()}(127.0.0.1)",
            f"SlurmctldPort={port}",
            f"SlurmctldPidFile={stage}/slurmctld.pid",
            f"SlurmctldLogFile={stage}/slurmctld.log",
            f"SlurmdPidFile={stage}/%n.pid",
            f"SlurmdLogFile={stage}/%n.log",
            f"SlurmdSpoolDir={stage}/spool-%n",
            f"StateSaveLocation={stage}/state",
            f"SlurmUser={user}",
            f"SlurmdUser={user}",
            "AuthType=auth/munge",
            # A job that has lost its node starts again only when its credential has expired.
            f"AuthInfo=socket={stage}/munge.socket,cred_expire={SILENCE}",
            "CredType=cred/munge",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "JobAcctGatherType=jobacct_gather/none",
            "SelectType=select/linear",
            "SchedulerType=sched/builtin",
            # Waiting jobs are checked ten times a second instead of every two seconds.
            "SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=100000",
            "SlurmdParameters=config_overrides",
            "ReturnToService=2",
            "MpiDefault=none",
            f"SlurmdTimeout={SILENCE}",
            f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES State=UP",
        ]
        for node, port in zip(self.nodes, ports):
            lines.append(f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs=1")
        (stage / "slurm.conf").write_text("\n".join(lines) + "\n")

    def start(self, name: str, *command: str) -> None:
        """Starts a daemon in the foreground, in a session of its own."""
        log = (self.stage / f"{name}.out").open("w")
        self.daemons[name] = subprocess.Popen(
            command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )

    def start_all(self) -> None:
        """Starts every daemon, and waits until all nodes are idle."""
        stage = self.stage
        (stage / "state").mkdir()
        key = stage / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        names = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        places = [f"--{option}={stage}/munge.{name}" for option, name in names.items()]
        self.start("munged", "munged", "--foreground", "--force", "--num-threads=2", *places)
        until("munged", (stage / "munge.socket").exists)
        self.start("slurmctld", "slurmctld", "-D", "-i")
        for node in self.nodes:
            self.start(node, "slurmd", "-D", "-N", node)
        until("idle nodes", self.is_idle)

    def is_idle(self) -> bool:
        """Returns true if every node is ready for jobs."""
        states = self.try_run("sinfo", "-h", "-N", "-o", "%T").split()
        return states == ["idle"] * len(self.nodes)

    def try_run(self, *command: str) -> str:
        """Returns the output of a command. The command may fail while daemons are starting."""
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=WAIT_LIMIT).stdout

    def run(self, *command: str, **env: str) -> str:
        """Returns the output of a command, which must succeed. The command runs in the stage,
        because jobs write their logs where they are submitted.
        """
        options = {"cwd": self.stage, "env": self.env | env, "timeout": WAIT_LIMIT}
        done = subprocess.run(command, capture_output=True, text=True, **options)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def node_of(self, task: str) -> str:
        """Returns the node on which a task runs; an empty text while the task waits."""
        return self.try_run("squeue", "-h", "-t", "running", "-j", task, "-o", "%N").strip()

    def kill(self, node: str) -> None:
        """Ends a node as a power cut does: kills its daemon, and all processes that the daemon has
        started.
        """
        mark = f"SLURMD_NODENAME={node}".encode()
        jobs, steps = [], set()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark not in (process / "environ").read_bytes().split(b"\0"):
                    continue
                parent = (process / "stat").read_text().rsplit(")", 1)[1].split()[1]
                jobs.append(int(process.name))
                if Path("/proc", parent, "cmdline").read_bytes().startswith(b"slurmstepd:"):
                    steps.add(int(parent))
            except OSError:
                continue
        # The daemon and its steps are killed first, because they would report to the controller how
        # the jobs ended.
        for victim in [self.daemons.pop(node).pid, *steps, *jobs]:
            send(victim, signal.SIGKILL)
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed")

    def wait(self, *jobs: str, at_rest: float = AT_ONCE) -> None:
        """Waits until none of the jobs has a task that waits or runs."""
        until(f"the end of {jobs}", lambda: not self.try_run("squeue", "-h", "-j", ",".join(jobs)).strip(), at_rest)

    def stop_all(self) -> None:
        """Ends all jobs and daemons."""
        self.try_run("scancel", "--signal=KILL", "--batch", "--full", f"--user={os.getuid()}")
        for daemon in reversed(list(self.daemons.values())):
            send(daemon.pid, signal.SIGTERM)
        for daemon in self.daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()


def send(process: int, number: signal.Signals) -> None:
    """Sends a signal to a process, which may have ended already."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


@contextmanager
def cluster(stage: Path, nodes: int, names: list[str] | None = None):
    """Runs a cluster during the block. Its nodes may have names that resolve to different
    addresses.
    """
    stage.mkdir(parents=True)
    running = Cluster(stage, nodes, names)
    running.configure()
    try:
        running.start_all()
        yield running
    except BaseException:
        for log in sorted(stage.glob("*.log")):
            print(f"== {log.name}\n{log.read_text(errors='replace')[-2000:]}")
        raise
    finally:
        running.stop_all()
        shutil.rmtree(stage, ignore_errors=True)
