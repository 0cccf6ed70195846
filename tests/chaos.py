"""Everything at once, and everything going wrong, for some minutes.

    python tests/chaos.py --minutes 10

A server answers, a bulk job tags and a run trains, while processes are killed, their
disk fills, connections drop and models are swapped. What ends is started again with
the same command, as an operator would. At the end every request that was accepted has
its answer, every row of every job is there once, and every model loads. The table says
how often each fault was made and what came of it; the exit code is 1 if anything was
lost.
"""

import argparse
import collections
import contextlib
import http.client
import json
import operator
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import faults
import served
import tiny

import bat_tf

# As the installed script does it: what counts is its name.
CODE = "import sys; sys.argv[0] = 'bat-tf'; from bat_tf.cli import main; main()"
COMMAND = [sys.executable, "-c", CODE]
ROWS, EPOCHS = 400, 3
# A request sent this many seconds before a polite end counts as accepted.
ACCEPTED = 0.3


class Actor:
    """A `bat-tf` command that is started again whenever it ends.

    Attributes:
        counts: what came of it: outcome → how often.
        lost: what should not have happened, in words.
    """

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.log = open(folder / f"{name}.log", "ab")
        self.counts, self.lost = collections.Counter(), []
        self.process, self.closing, self.whole = None, False, True
        self.worked = threading.Event()  # since its last start
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def start(self, *arguments):
        """Runs the command to its end; returns its exit code."""
        command = [*COMMAND, *map(str, arguments)]
        self.log.write(f"\n$ bat-tf {' '.join(command[3:])}\n".encode())
        self.log.flush()
        self.worked.clear()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        while self.process.poll() is None:
            time.sleep(0.05)
            if self.progress():
                self.worked.set()
        return self.process.returncode

    def progress(self):
        """Something that is true when the process has done some of its work."""
        return False

    def kill(self, what=signal.SIGKILL):
        """Sends the process a signal; returns whether there was one."""
        alive = self.process is not None and self.process.poll() is None
        if alive:
            self.process.send_signal(what)
        return alive

    def workers(self):
        """Numbers of the processes that it started itself."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with contextlib.suppress(OSError):
            return [int(number) for number in path.read_text().split()]
        return []

    def _work(self):
        # What a fault broke last is begun again, too.
        while not (self.closing and self.whole):
            try:
                self.whole = self.turn()
            except Exception as error:
                self.lost.append(f"{self.name}: {error!r}")
                time.sleep(0.5)

    def turn(self):
        """Runs the command once; returns whether what it left is whole."""
        raise NotImplementedError

    def close(self, seconds):
        """Lets the present turn end, faults being over."""
        self.closing = True
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.lost.append(f"{self.name}: not done {seconds} seconds after the end")
            self.kill()
        self.log.close()


class Bulk(Actor):
    """A job in shards on the small disk, until it is done; then another one."""

    def __init__(self, folder, model, disk):
        self.model, self.disk = model, disk
        self.input = folder / "rows.jsonl"
        rows = ({"id": n, "text": f"{n}: {served.TEXTS[0]}"} for n in range(ROWS))
        self.input.write_text("".join(json.dumps(row) + "\n" for row in rows))
        super().__init__(folder, "bulk")

    @property
    def out(self):
        """The folder of the present job."""
        return self.disk / f"job-{self.counts['jobs done']}"

    def progress(self):
        return any(self.out.glob("part-*"))

    def turn(self):
        out = self.out
        options = ["--workers", "2", "--shard-rows", "40", "--model", self.model]
        code = self.start("tag", "-i", self.input, "-o", f"{out}/", *options)
        if code:
            self.counts[f"ended with {code}, started again"] += 1
            return False
        parts = sorted(out.glob("part-*.jsonl"))
        lines = [line for part in parts for line in part.read_text().splitlines()]
        found = [json.loads(line)["id"] for line in lines]
        if found != list(range(ROWS)):
            self.lost.append(f"bulk: {len(found)} rows instead of {ROWS} in {out.name}")
        self.counts["jobs done"] += 1
        shutil.rmtree(out)
        return True


class Training(Actor):
    """A run on the small disk, until it is done; then another one."""

    def __init__(self, folder, disk):
        self.disk, self.data = disk, folder / "train.jsonl"
        tiny.dataset(64).save(self.data)
        super().__init__(folder, "training")

    @property
    def out(self):
        """The folder of the present run."""
        return self.disk / f"run-{self.counts['runs done']}"

    def progress(self):
        return any(self.out.glob("backup/*"))

    def turn(self):
        out = self.out
        options = [f"--set=encoder.{k}={v}" for k, v in tiny.ENCODER.items()]
        options += ["--recipe", "none", "--epochs", EPOCHS]
        code = self.start("train", self.data, "-o", out, *options)
        if code:
            self.counts[f"ended with {code}, started again"] += 1
            return False
        bat_tf.load(out).tag(served.TEXTS)
        rows = (out / "history.csv").read_text().splitlines()[1:]
        if [row.split(",")[0] for row in rows] != [str(n) for n in range(EPOCHS)]:
            self.lost.append(f"training: {len(rows)} epochs in {out.name}")
        self.counts["runs done"] += 1
        shutil.rmtree(out)
        return True


class Server(Actor):
    """`bat-tf serve` on numbered versions, and clients that check every answer."""

    def __init__(self, folder, models, clients=4):
        self.models, self.versions = models, folder / "shop"
        self.versions.mkdir()
        shutil.copytree(models[0], self.versions / "1")
        self.cuts = []  # (time, whether it was politely) of each end
        self.port = served.free_port()
        self.right = [self._answer_of(model) for model in models]
        super().__init__(folder, "server")
        self._clients = [threading.Thread(target=self._ask) for _ in range(clients)]
        for client in self._clients:
            client.start()

    @staticmethod
    def _answer_of(model):
        rows = bat_tf.load(model).tag([served.TEXTS[0]])[0]
        return [[tag.kind, tag.start, tag.end] for tag in rows]

    def turn(self):
        self.start("serve", "--model", self.versions, "--port", self.port)
        self.counts["starts"] += 1
        return True

    def end(self, what):
        """Ends the process; it is started again by itself."""
        self.cuts.append((time.monotonic(), what == signal.SIGTERM))
        return self.kill(what)

    def _version(self):
        """The number of the version that answers; None if nobody does."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            line.request("GET", "/v1/models/shop")
            answer = json.loads(line.getresponse().read())
            return int(answer["model_version_status"][0]["version"])

    def _ask(self):
        body = json.dumps({"instances": [served.TEXTS[0]]})
        while not self.closing:
            sent = time.monotonic()
            line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                line.request("POST", "/v1/models/shop:predict", body)
                sent = time.monotonic()
                answer = line.getresponse()
                self._check(answer, json.loads(answer.read()))
            except ConnectionRefusedError:
                time.sleep(0.1)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._judge(error, sent)
            finally:
                line.close()
            time.sleep(0.02)

    def _check(self, answer, found):
        if answer.status == 200:
            row = found["predictions"][0]
            columns = zip(row["tags"], row["starts"], row["ends"], strict=True)
            tags = [list(tag) for tag in columns][: row["num_tags"]]
            self.counts["requests answered"] += 1
            self.worked.set()
            if tags not in self.right:
                self.lost.append(f"server: a wrong answer, {tags}")
        elif answer.status == 503 and answer.headers["retry-after"]:
            self.counts["requests told to come again"] += 1
        else:
            self.lost.append(f"server: {answer.status} {found}")

    def _judge(self, error, sent):
        """A broken connection is a loss, unless the server was killed meanwhile."""
        now = time.monotonic()
        for ended, politely in self.cuts:
            if sent - 1 < ended < now and not (politely and sent < ended - ACCEPTED):
                self.counts["requests cut off by a kill"] += 1
                return
        self.lost.append(f"server: no answer, {error!r}")

    def close(self, seconds):
        ends = time.monotonic() + seconds
        newest = max(int(p.parent.name) for p in self.versions.glob("*/saved_model.pb"))
        while self._version() != newest and time.monotonic() < ends:
            time.sleep(0.5)
        if self._version() != newest:
            self.lost.append(f"server: version {newest} does not answer")
        self.closing = True
        for client in self._clients:
            client.join(seconds)
        self.end(signal.SIGTERM)
        super().close(seconds)


def breaks(name):
    """Says which actor a fault is made to."""

    def mark(fault):
        fault.victim = operator.attrgetter(name)
        return fault

    return mark


class Arena:
    """The actors, and the faults that are made to them."""

    def __init__(self, folder, disk, seed):
        self.random, self.disk, self.folder = random.Random(seed), disk, folder
        models = [served.folder("pages"), served.folder("pieces")]
        self.server = Server(folder, models)
        self.bulk = Bulk(folder, models[0], disk.folder)
        self.training = Training(folder, disk.folder)
        self.actors = [self.server, self.bulk, self.training]
        self.made = collections.Counter()

    # === Faults: each returns whether there was anything to break ===

    @breaks("server")
    def kill_the_server(self):
        return self.server.end(signal.SIGKILL)

    @breaks("server")
    def end_the_server(self):
        return self.server.end(signal.SIGTERM)

    @breaks("bulk")
    def kill_the_bulk_job(self):
        return self.bulk.kill()

    @breaks("bulk")
    def kill_a_bulk_worker(self):
        workers = self.bulk.process and self.bulk.workers()
        return workers and not subprocess.call(
            ["kill", "-9", str(self.random.choice(workers))], stderr=subprocess.DEVNULL
        )

    @breaks("training")
    def kill_training(self):
        return self.training.kill()

    @breaks("training")
    def stop_training_with_ctrl_c(self):
        return self.training.kill(signal.SIGINT)

    def fill_the_disk(self):
        self.disk.fill(leave=20_000)
        time.sleep(3)
        self.disk.clear()
        return True

    @breaks("server")
    def drop_connections(self):
        """Clients that send half a request and go, or that never read the answer."""
        head = b"POST /v1/models/shop:predict HTTP/1.1\r\nHost: localhost\r\n"
        body = json.dumps({"instances": served.TEXTS}).encode()
        lines = []
        for number in range(20):
            with contextlib.suppress(OSError):
                line = socket.create_connection(("127.0.0.1", self.server.port), 5)
                lines.append(line)
                line.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body))
                line.sendall(body if number % 2 else body[:9])
        for line in lines:
            line.close()
        return bool(lines)

    @breaks("server")
    def swap_the_model(self):
        """A new version, put in place when it is whole."""
        new = self._next_version()
        source = self.random.choice(self.server.models)
        shutil.copytree(source, new.with_name(".new"), dirs_exist_ok=True)
        new.with_name(".new").rename(new)
        return True

    @breaks("server")
    def begin_a_version_and_leave_it(self):
        """A newest version that is not whole: a copy that was cut off."""
        new = self._next_version()
        shutil.copytree(self.server.models[0] / "variables", new / "variables")
        return True

    def _next_version(self):
        names = [p.name for p in self.server.versions.iterdir() if p.name.isdecimal()]
        return self.server.versions / str(max(map(int, names)) + 1)

    # === The show ===

    def run(self, minutes):
        """Makes faults, each kind as often as the others, until the time is over."""
        end, kinds = time.monotonic() + 60 * minutes, []
        while time.monotonic() < end:
            if not kinds:
                kinds = [
                    self.kill_the_server,
                    self.end_the_server,
                    self.kill_the_bulk_job,
                    self.kill_a_bulk_worker,
                    self.kill_training,
                    self.stop_training_with_ctrl_c,
                    self.fill_the_disk,
                    self.drop_connections,
                    self.swap_the_model,
                    self.begin_a_version_and_leave_it,
                ]
                self.random.shuffle(kinds)
            fault = kinds.pop()
            # Most faults interrupt work; some come while a process still starts.
            victim = getattr(fault, "victim", None)
            if victim and self.random.random() < 0.75:
                victim(self).worked.wait(30)
            if fault():
                self.made[fault.__name__.replace("_", " ")] += 1
            else:
                kinds.insert(0, fault)  # there was nothing to break
            time.sleep(self.random.uniform(0.5, 2))

    def close(self):
        """Ends faults, lets everything finish, and looks at all models again."""
        self.disk.clear()
        for actor in reversed(self.actors):
            actor.close(600)
        for version in self.server.versions.iterdir():
            if (version / "saved_model.pb").exists():
                self.server._answer_of(version)
                self.server.counts["versions that load"] += 1

    def table(self):
        """What was done, and what came of it."""
        lines = [f"{'fault':40} made"]
        lines += [f"{name:40} {count:4}" for name, count in sorted(self.made.items())]
        lines.append(f"\n{'outcome':40} times")
        for actor in self.actors:
            for outcome, count in sorted(actor.counts.items()):
                lines.append(f"{actor.name + ': ' + outcome:40} {count:5}")
        lost = [sentence for actor in self.actors for sentence in actor.lost]
        lines.append(f"{'lost':40} {len(lost):5}")
        return "\n".join([*lines, *lost[:20]]), lost


def chaos(minutes, seed=0):
    """Returns the table and what was lost."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with faults.small_disk(folder / "disk", 64 * 2**20) as disk:
            arena = Arena(folder, disk, seed)
            try:
                arena.run(minutes)
            finally:
                arena.close()
            table, lost = arena.table()
            if lost:
                logs = (path.read_text("utf-8") for path in folder.glob("*.log"))
                table += "\n" + "\n".join(log[-3000:] for log in logs)
            return table, lost


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    table, lost = chaos(options.minutes, options.seed)
    print(table)
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
