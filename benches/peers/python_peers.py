"""The peers that are Python packages: doit, luigi, snakemake, HyperQueue. They live in one virtual environment."""

import json
from pathlib import Path

from tools import PARALLEL, Prepared, Tool, expect_count, program
from workloads import Workload

# Reads what `prepare` left, in the language that all four speak.
READ_WORKLOAD = "import json\nDEPENDENCIES = json.load(open('workload.json'))\n"


class PythonTool(Tool):
    # The file inside the virtual environment by which one sees that it is there.
    probe: str

    def __init__(self, tools: Path):
        self.venv = tools / "venv"

    def missing(self) -> str | None:
        return None if any(self.venv.glob(self.probe)) else f"not installed (PyPI: {self.name})"

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        (directory / "workload.json").write_text(json.dumps(workload.dependencies))
        return self.prepare_python(directory, workload)

    def prepare_python(self, directory: Path, workload: Workload) -> Prepared:
        raise NotImplementedError

    def bin(self, name: str) -> str:
        return str(self.venv / "bin" / name)


class Doit(PythonTool):
    name, label, probe = "doit", "doit, threads", "bin/doit"
    is_rival = True
    durability = "a database, written once when the whole run ends: a crash before loses all of it"

    def prepare_python(self, directory: Path, workload: Workload) -> Prepared:
        (directory / "dodo.py").write_text(
            READ_WORKLOAD
            + """
DOIT_CONFIG = {"verbosity": 0, "reporter": "zero"}

def task_t():
    for number, dependencies in enumerate(DEPENDENCIES):
        before = [f"t:{dependency}" for dependency in dependencies]
        yield {"name": str(number), "actions": [["true"]], "task_dep": before}
"""
        )
        return Prepared([self.bin("doit"), "run", "-n", str(PARALLEL), "-P", "thread"])


class Luigi(PythonTool):
    name, label, probe = "luigi", "luigi, local scheduler", "bin/luigi"
    is_durable = is_rival = True
    durability = "an output file for each task, made by the task and not synced; a restart looks for them"
    most = 500

    def prepare_python(self, directory: Path, workload: Workload) -> Prepared:
        (directory / "made").mkdir()
        (directory / "flow.py").write_text(
            READ_WORKLOAD
            + f"""
import subprocess
import luigi

class Step(luigi.Task):
    number = luigi.IntParameter()
    def requires(self):
        return [Step(number=dependency) for dependency in DEPENDENCIES[self.number]]
    def output(self):
        return luigi.LocalTarget(f"made/{{self.number}}")
    def run(self):
        subprocess.run(["true"], check=True)
        with self.output().open("w"):
            pass

steps = [Step(number=number) for number in range(len(DEPENDENCIES))]
is_done = luigi.build(steps, workers={PARALLEL}, local_scheduler=True, log_level="CRITICAL")
raise SystemExit(0 if is_done else 1)
"""
        )
        # Its workers sleep between looks, a second and more by default.
        (directory / "luigi.cfg").write_text("[worker]\nwait_interval=0.01\nwait_jitter=0\n")
        return Prepared([self.bin("python"), "flow.py"], {"LUIGI_CONFIG_PATH": str(directory / "luigi.cfg")})

    def check(self, directory: Path, workload: Workload) -> None:
        expect_count("outputs", len(list((directory / "made").iterdir())), workload.tasks)


class Snakemake(PythonTool):
    name, label, probe = "snakemake", "snakemake, greedy scheduler", "bin/snakemake"
    is_durable = is_rival = True
    durability = "an output file and a metadata file for each task, not synced; a restart goes by them and by times"
    most = 200

    def prepare_python(self, directory: Path, workload: Workload) -> Prepared:
        (directory / "Snakefile").write_text(
            READ_WORKLOAD
            + r"""
rule all:
    input: [f"made/{number}" for number in range(len(DEPENDENCIES))]

rule step:
    input: lambda wildcards: [f"made/{dependency}" for dependency in DEPENDENCIES[int(wildcards.number)]]
    output: touch("made/{number,\d+}")
    shell: "true"
"""
        )
        argv = [self.bin("snakemake"), "--cores", str(PARALLEL), "--quiet", "all", "--scheduler", "greedy", "--", "all"]
        return Prepared(argv, {"XDG_CACHE_HOME": str(directory / "cache")})

    def check(self, directory: Path, workload: Workload) -> None:
        expect_count("outputs", sum(file.name.isdigit() for file in (directory / "made").iterdir()), workload.tasks)


class HyperQueue(PythonTool):
    name, label = "hyperqueue", "HyperQueue (Python package, server and worker in one process)"
    probe = "lib/python*/site-packages/hyperqueue"
    durability = "none: its Python package has no journal; stdout and stderr files for each task"

    def prepare_python(self, directory: Path, workload: Workload) -> Prepared:
        (directory / "out").mkdir()
        (directory / "flow.py").write_text(
            READ_WORKLOAD
            + f"""
import os
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

with LocalCluster(server_dir=os.path.abspath("server")) as cluster:
    cluster.start_worker(WorkerConfig(cores={PARALLEL}))
    client = cluster.client()
    job = Job(default_workdir=os.path.abspath("out"))
    tasks = []
    for dependencies in DEPENDENCIES:
        tasks.append(job.program(["true"], deps=[tasks[number] for number in dependencies]))
    client.wait_for_jobs([client.submit(job)])
"""
        )
        return Prepared([self.bin("python"), "flow.py"])

    def check(self, directory: Path, workload: Workload) -> None:
        expect_count("output files", len(list((directory / "out").glob("*.stdout"))), workload.tasks)

    def ended_at(self, directory: Path) -> float | None:
        # Its client asks once a second whether all is over. The last output file is made when the last task starts.
        return max(file.stat().st_mtime for file in (directory / "out").iterdir())


class HyperQueueJournal(Tool):
    name, label = "hq-journal", "HyperQueue (`hq server --journal`)"
    is_durable = is_rival = True
    durability = "a journal, buffered in memory and synced from time to time: the last few seconds may be lost"

    def missing(self) -> str | None:
        where = "only the `hq` program has a journal, and neither Debian nor PyPI nor crates.io has that"
        return None if program("hq") else f"not available here ({where})"

    def prepare(self, directory: Path, workload: Workload) -> Prepared:
        job = "".join(
            f"[[task]]\nid = {number}\ncommand = ['true']\ndeps = {list(dependencies)}\n"
            for number, dependencies in enumerate(workload.dependencies)
        )
        (directory / "job.toml").write_text(job)
        hq = f"{program('hq')} --server-dir=server"
        script = f"""
            {hq} server start --journal=journal >server.log 2>&1 &
            until {hq} server info >/dev/null 2>&1; do sleep 0.01; done
            {hq} worker start --cpus={PARALLEL} >worker.log 2>&1 &
            {hq} job submit-file job.toml && {hq} job wait all && {hq} server stop
            wait
        """
        return Prepared(["/bin/sh", "-c", script])
