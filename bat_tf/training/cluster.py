"""Which processes train together: from a file, or from `TF_CONFIG`.

A file has the workers and, unless the command line says it, which of them this is:

    workers:
    - 10.0.0.1:2222
    - 10.0.0.2:2222
    index: 0
"""

import dataclasses
import json
import os
from pathlib import Path

import yaml

from bat_tf._internal.validation import check_number, sentence

EXAMPLE = '{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"index": 0}}'


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers that train together, and which of them this process is.

    Args:
        workers: `host:port` of each, in the same order everywhere; the first is chief.
        index: the place of this process among them.

    Example:
        >>> Cluster(["a:2222", "b:2222"], index=1).is_chief
        False
    """

    workers: list
    index: int

    def __post_init__(self):
        addresses = isinstance(self.workers, list) and self.workers
        if not addresses or not all(_is_address(name) for name in self.workers):
            expected = 'a list of addresses like "host:2222"'
            raise ValueError(sentence("workers", expected, self.workers))
        if len(set(self.workers)) < len(self.workers):
            expected = "different addresses"
            raise ValueError(sentence("workers", expected, self.workers))
        check_number("worker", self.index, 0, len(self.workers) - 1, integer=True)

    @property
    def is_chief(self):
        """Whether this process writes the files."""
        return self.index == 0

    @classmethod
    def load(cls, path, worker=None):
        """Reads a cluster from a YAML or JSON file.

        It has a list `workers` and, unless `worker` says so, this process' `index`; or
        it is written like `TF_CONFIG`.

        Args:
            path: the file.
            worker: the place of this process, from 0; one file then serves all hosts.
        """
        try:
            values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is neither YAML nor JSON: {error}") from error
        if isinstance(values, dict) and "cluster" in values:
            return cls._of_tf_config(values, str(path), worker)
        if not isinstance(values, dict) or not set(values) <= {"workers", "index"}:
            expected = "a file with `workers` and perhaps `index`"
            raise ValueError(sentence("cluster", expected, values))
        index = values.get("index") if worker is None else worker
        if index is None:
            remedy = "Pass `worker` (`bat-tf train --worker 0`), or write `index` down."
            raise ValueError(sentence("worker", "given", None, remedy))
        return cls(values.get("workers"), index)

    @classmethod
    def from_environment(cls):
        """The cluster of the variable `TF_CONFIG`; None if it is not set."""
        text = os.environ.get("TF_CONFIG")
        if not text:
            return None
        try:
            values = json.loads(text)
        except json.JSONDecodeError:
            values = None
        return cls._of_tf_config(values, "TF_CONFIG")

    @classmethod
    def _of_tf_config(cls, values, name, worker=None):
        """A chief, if it is a job of its own, is the first worker here."""
        jobs = values.get("cluster") if isinstance(values, dict) else None
        if not isinstance(jobs, dict):
            raise ValueError(sentence(name, f"like {EXAMPLE}", values))
        if not set(jobs) <= {"chief", "worker"}:
            expected = "a cluster of workers, and a chief perhaps"
            remedy = "Parameter servers and evaluators are not supported."
            raise ValueError(sentence(name, expected, sorted(jobs), remedy))
        chiefs = list(jobs.get("chief", []))
        if worker is None:
            task = values.get("task") or {}
            worker = task.get("index")
            if isinstance(worker, int) and task.get("type", "worker") == "worker":
                worker += len(chiefs)
        return cls(chiefs + list(jobs.get("worker", [])), worker)


def _is_address(name):
    host, _, port = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    return bool(host) and port.isdigit()
