"""heed train under SLURM by examples/slurm/train.sbatch: requeued and told to leave, it ends with the bits of one run.

A SLURM of one node with four processors is started for it, as root, in a directory of its own.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import time
import unittest

from program import HEED, TINY, TrainingTest, corpus

MPIRUN = os.environ["HEED_MPIRUN"]
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "examples/slurm/train.sbatch"
PATH = os.environ["PATH"] + ":/usr/sbin"
MISSING = [name for name in ("munged", "slurmctld", "slurmd") if not shutil.which(name, path=PATH)]
NODE = socket.gethostname().split(".")[0]
CONFIGURATION = """
ClusterName=heed
SlurmctldHost={node}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={at}/munge/socket
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.pid
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
NodeName={node} NodeAddr=127.0.0.1 CPUs=4
PartitionName=all Nodes={node} Default=YES
"""
OPTIONS = ["--pairs", "train.tsv", "--valid-pairs", "dev.tsv", *TINY, "--d-model", "16", "--feed-forward", "16",
           "--batch-tokens", "64", "--accumulate", "8", "--max-updates", "3000", "--validate-every", "1000",
           "--average", "2", "--log-every", "50", "--dropout", "0.1"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@unittest.skipUnless(not MISSING and os.geteuid() == 0,
                     f"SKIPPED: SLURM needs root and {', '.join(MISSING) or 'nothing else'} (Debian: slurm-wlm)")
class SlurmTest(TrainingTest):
    RUN = ["train", *OPTIONS]

    def setUp(self):
        super().setUp()
        self.write("train.tsv", corpus(200))
        self.write("dev.tsv", corpus(20, seed=2))
        version = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=True).stdout
        self.environment = dict(os.environ, SLURM_CONF=f"{self.at}/slurm/slurm.conf", PATH=PATH,
                                SLURM_MPI_TYPE="pmi2" if "HYDRA" in version else "pmix")
        self.start_slurm(self.at / "slurm")

    def start_slurm(self, at):
        for name in ("munge", "state", "spool"):
            (at / name).mkdir(parents=True)
        for path in (self.at, at, at / "munge"):
            path.chmod(0o755)  # munged wants its socket to be reached by all
        (at / "munge/key").write_bytes(os.urandom(128))
        (at / "munge/key").chmod(0o400)
        ports = {"controller": free_port(), "daemon": free_port()}
        (at / "slurm.conf").write_text(CONFIGURATION.format(at=at, node=NODE, **ports))
        munge = [f"--{name}={at}/munge/{file}" for name, file in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("seed-file", "seed"))]
        for command in (["munged", "--foreground", "--force", *munge], ["slurmctld", "-D", "-c"],
                        ["slurmd", "-D", "-c"]):
            with open(at / f"{command[0]}.log", "w", encoding="utf-8") as log:
                process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
            self.addCleanup(process.wait, 60)
            self.addCleanup(process.terminate)
            time.sleep(0.5)
        self.until(lambda: "idle" in self.slurm("sinfo", "--noheader", "--format=%T"), "a node that waits for jobs")

        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        self.slurm("scancel", "--me")
        self.until(lambda: not self.slurm("squeue", "--noheader"), "end of all jobs")

    def slurm(self, *command):
        return subprocess.run(command, cwd=self.at, env=self.environment, capture_output=True, text=True, timeout=60,
                              check=False).stdout

    def until(self, condition, what):
        end = time.monotonic() + 180
        while not condition():
            if time.monotonic() > end:
                logs = [f"{p.name}:\n{p.read_text()[-1500:]}" for p in self.at.glob("slurm/*.log")]
                self.fail(f"no {what}\n{self.log()[-3000:]}\n" + "\n".join(logs))
            time.sleep(0.1)

    def log(self):
        path = self.at / "job.log"
        return path.read_text() if path.exists() else ""

    def test_a_job_that_is_stopped_and_queued_again(self):
        self.train("--model", "whole")
        job = self.slurm("sbatch", "--parsable", "--ntasks=2", "--time=10", "--output=job.log",
                         f"--export=ALL,PATH={pathlib.Path(HEED).parent}:{PATH}", str(SCRIPT), *OPTIONS, "--model",
                         "m").strip()
        self.assertRegex(job, "^[0-9]+$")
        # As a preemption does; then as the end of its time does, behind which the script queues itself.
        for turn, stop in enumerate((["scontrol", "requeue", job], ["scancel", "--signal=TERM", job]), 1):
            begun = self.log().count(" update ")
            self.until(lambda: self.log().count(" update ") > begun + 5, "updates")
            self.slurm(*stop)
            self.until(lambda: self.log().count("saved after update") == turn, "save")
            self.until(lambda: "PENDING" in self.slurm("squeue", "--noheader", "--format=%T"), "job in the queue")
            # SLURM lets it wait for two minutes, since for a moment the node still refuses what it has just ended.
            self.slurm("scontrol", "update", f"JobId={job}", "StartTime=now+5")
            self.until(lambda: self.log().count("goes on after update") == turn, "job that goes on")
        self.until(lambda: "finished: --max-updates reached after 3000 updates" in self.log(), "end")
        self.until(lambda: not self.slurm("squeue", "--noheader"), "end of the job")
        self.assertEqual(self.model(), self.model("whole"))


if __name__ == "__main__":
    unittest.main()
