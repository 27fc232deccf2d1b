"""A stand-in for `wk` that keeps to its command line contract, and misbehaves when a scene asks for it.

`STAND_IN_SCENE` names the scene; every call is noted in `.ce/calls.jsonl` below the root. Agents are not
started: their tasks succeed, or end as the scene says.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LARGE_COUNT = 50_000
EXIT_CODES = {"success": 0, "failure": 1, "partial_success": 3, "timeout": 4, "cancelled": 5}


class Interrupted(BaseException):
    """SIGINT or SIGTERM arrived."""


def main() -> int:
    """Plays the scene."""
    # Before the arguments are judged: a call with bad ones is a call too.
    bus = Path(sys.argv[sys.argv.index("--root") + 1]) / ".ce"
    bus.mkdir(parents=True, exist_ok=True)
    with open(bus / "calls.jsonl", "a", encoding="utf-8") as calls:
        calls.write(json.dumps({"pid": os.getpid(), "arguments": sys.argv[1:]}) + "\n")
    options = parse()
    if options.verb == "cancel":
        return cancel(bus, options)
    return Run(bus, options, os.environ.get("STAND_IN_SCENE", "success")).play()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="wk")
    parser.add_argument("--root", required=True)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("request")
    run.add_argument("--output", required=True)
    run.add_argument("--progress", choices=["json"], required=True)
    run.add_argument("--launcher", choices=["tmux", "process"])
    run.add_argument("--dry-run", action="store_true")
    run.add_argument("--verify", nargs="?", const="true", choices=["true", "false"])
    cancel_parser = verbs.add_parser("cancel")
    cancel_parser.add_argument("batch")
    cancel_parser.add_argument("--why")
    return parser.parse_args()


def cancel(bus: Path, options: argparse.Namespace) -> int:
    if os.environ.get("STAND_IN_SCENE") == "cannot_be_cancelled":
        sys.stderr.write("error: no such batch\n")
        return 2
    (bus / f"cancel-{options.batch}").write_text(options.why or "")
    return 0


class Run:
    """One `wk run`."""

    def __init__(self, bus: Path, options: argparse.Namespace, scene: str) -> None:
        self.bus = bus
        self.options = options
        self.scene = scene
        self.request = json.loads(Path(options.request).read_bytes())

    def play(self) -> int:
        defects = self.defects()
        if defects:
            sys.stderr.write("error: the request was refused\n")
            self.tell(event="refused", defects=defects)
            return 2
        own_word = self.request.get("dry_run") or self.request.get("execution_mode", {}).get("dry_run")
        if self.options.dry_run or own_word:
            return self.show()
        signal.signal(signal.SIGINT, self.interrupted)
        signal.signal(signal.SIGTERM, self.interrupted)
        try:
            special = getattr(self, f"scene_{self.scene}", None)
            return special() if special else self.scene_ends_with(self.scene)
        except Interrupted:
            sys.stderr.write("stopped watching; the batch is kept as it is\n")
            return 130

    def show(self) -> int:
        text = "1 stage: code-generator\n"
        if self.scene == "older":
            sys.stdout.write(text)
            return 0
        execution_id = self.request.get("execution_id")
        check = {"warnings": ["agents[0]: something odd"]} if self.scene == "odd" else {}
        self.tell(event="dry_run", execution_id=execution_id, workspace_root="/w", text=text, check=check)
        return 0

    def defects(self) -> list[dict[str, str]]:
        names = {agent["agent_name"] for agent in self.request["agents"]}
        return [
            {
                "rule": "unknown_dependency",
                "place": f"agents[{index}].dependencies",
                "message": f"`{missing}` is no agent of this request",
                "remedy": "name one of its agents",
            }
            for index, agent in enumerate(self.request["agents"])
            for missing in agent.get("dependencies", [])
            if missing not in names
        ]

    def scene_ends_with(self, status: str) -> int:
        self.accept()
        for agent in self.request["agents"]:
            ended = "success" if status in ("success", "awaiting") else "failure"
            # Twice the same: a sign of life, and no change.
            self.tell_task(agent["agent_name"], "running", progress=0.4)
            self.tell_task(agent["agent_name"], "running", progress=0.4)
            self.tell_task(agent["agent_name"], ended)
        self.tell(event="stage", name="merge")
        if status == "awaiting":
            self.finish("failure")
            return 6
        return self.finish(status)

    def scene_without_end(self) -> int:
        self.accept()
        return self.wait_for_cancel()

    scene_cannot_be_cancelled = scene_without_end

    def scene_never_accepted(self) -> int:
        self.tell(event="stage", name="checkpoint")
        return self.wait_for_cancel()

    def scene_deaf(self) -> int:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.accept()
        while True:
            signal.pause()

    def scene_floods(self) -> int:
        self.accept()
        while not self.wish().exists():
            self.tell_task("code-generator", "running")
        return self.finish("cancelled")

    def scene_held(self) -> int:
        sys.stderr.write("error: this bus is watched\nhint: put the launcher into the settings\n")
        return 75

    def scene_disk_error(self) -> int:
        sys.stderr.write("error: publish batch.json: no space left on device\n")
        return 74

    def scene_bug(self) -> int:
        sys.stderr.write("thread 'main' panicked\n")
        return 70

    def scene_killed(self) -> int:
        self.accept()
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def scene_stopped_by_another(self) -> int:
        self.accept()
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
        return 0

    def scene_no_report(self) -> int:
        self.accept()
        return 1

    def scene_report_is_lost(self) -> int:
        self.accept()
        return 0

    def scene_broken_report(self) -> int:
        self.accept()
        Path(self.options.output).write_text('{"status": "succ')
        return 0

    def scene_newer(self) -> int:
        self.accept(colour="blue")
        self.tell(event="weather", sky="grey")
        self.tell(task="an object that is no event")
        sys.stdout.write("a line for people\n[1, 2]\n\n")
        return self.finish("success", evidence="observed", mood="fine")

    def scene_not_utf8(self) -> int:
        self.accept()
        sys.stdout.buffer.write(b'{"event": "task", "task": "\xff\xfe", "status": "running"}\n')
        sys.stderr.buffer.write(b"warning: \xff\r\n")
        sys.stderr.buffer.write(b"warning: without an end of line")
        return self.finish("success")

    def scene_large(self) -> int:
        self.accept()
        for number in range(LARGE_COUNT):
            self.tell_task("code-generator", "running", message=f"step {number}", flush=False)
            sys.stderr.write(f"warning: {number} {'x' * 80}\n")
        return self.finish("success", warnings=[{"message": "y" * 1000}] * 20_000)

    def scene_leaves_a_heir(self) -> int:
        """Leaves a process behind that holds both pipes open."""
        self.accept()
        heir = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
        (self.bus / "heir").write_text(str(heir.pid))
        return self.finish("success")

    def accept(self, **more: object) -> None:
        request = self.request
        self.tell(
            event="accepted",
            batch_id=request["execution_id"],
            execution_id=request["execution_id"],
            workspace_root=request["workspace_root"],
            **more,
        )

    def wait_for_cancel(self) -> int:
        for agent in self.request["agents"]:
            self.tell_task(agent["agent_name"], "running")
        while not self.wish().exists():
            time.sleep(0.01)
        return self.finish("cancelled")

    def wish(self) -> Path:
        return self.bus / f"cancel-{self.request['execution_id']}"

    def finish(self, status: str, **more: object) -> int:
        agent_status = status if status in ("success", "timeout") else "failure"
        report = {
            "execution_id": self.request["execution_id"],
            "status": status,
            "agents": [
                {"agent_name": agent["agent_name"], "status": agent_status}
                for agent in self.request["agents"]
            ],
            "merge_result": {"status": agent_status},
            "errors": [],
            "warnings": [],
            **more,
        }
        output = Path(self.options.output)
        staged = output.with_name(f".tmp-{output.name}")
        staged.write_text(json.dumps(report))
        staged.replace(output)
        self.tell(event="finished", status=status, report=str(output))
        return EXIT_CODES[status]

    def tell_task(self, task: str, status: str, *, flush: bool = True, **more: object) -> None:
        fields = {"event": "task", "task": task, "agent": task, "status": status}
        always = {"attempt": 1, "progress": None, "message": None}
        self.write({**fields, **always}, more, flush=flush)

    def tell(self, **fields: object) -> None:
        self.write(fields, {}, flush=True)

    def write(self, fields: dict[str, object], more: dict[str, object], *, flush: bool) -> None:
        sys.stdout.write(json.dumps({**fields, **more}) + "\n")
        if flush:
            sys.stdout.flush()

    def interrupted(self, *_signal: object) -> None:
        raise Interrupted


if __name__ == "__main__":
    sys.exit(main())
