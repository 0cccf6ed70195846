"""One package for extreme labels, trained and asked, for `xmc_peers.py`.

Runs under an interpreter that has the package; nothing of bat_tf is imported. The one
argument is a JSON file with the request, see `main` and the driver. Features and labels
come as SciPy matrices [N, F] and [N, L]; what goes back is the best labels of every
test row with their scores, and what they cost.
"""

import importlib.metadata
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse


class Omikuji:
    """Trees of hinge losses as Parabel has them, or wide ones as Bonsai has."""

    package = "omikuji"

    def __init__(self, folder, threads, settings):
        import omikuji

        self.module = omikuji
        self.folder, self.threads, self.settings = folder, threads, settings

    def prepare(self, x, y):
        """It learns from a file: first how many rows, features and labels."""
        self.path = self.folder / "train.txt"
        rows = np.flatnonzero(np.diff(x.indptr))  # it cannot read one without features
        with open(self.path, "w") as file:
            file.write(f"{len(rows)} {x.shape[1]} {y.shape[1]}\n")
            for row in rows:
                labels, features = (_row(matrix, row) for matrix in (y, x))
                pairs = " ".join(f"{i}:{value:.6g}" for i, value in features)
                file.write(f"{','.join(str(i) for i, _ in labels)} {pairs}\n")

    def train(self, x, y):
        chosen = self.module.Model.default_hyper_param()
        for name, value in self.settings.items():
            if not hasattr(chosen, name):
                raise SystemExit(f"omikuji has no {name!r}, but: {dir(chosen)}")
            setattr(chosen, name, value)
        self.model = self.module.Model.train_on_data(
            str(self.path), chosen, self.threads
        )

    def save(self, folder):
        self.model.save(str(folder))
        self.model.init_prediction_thread_pool(self.threads)

    def predict(self, x, k):
        rows = range(x.shape[0])
        return _padded(
            [self.model.predict(_row(x, i), beam_size=10, top_k=k) for i in rows], k
        )


class Napkinxc:
    """A probabilistic label tree."""

    package = "napkinxc"

    def __init__(self, folder, threads, settings):
        from napkinxc.models import PLT

        # It writes its weights while it trains.
        self.saved = folder / "model"
        self.model = PLT(str(self.saved), threads=threads, seed=0, **settings)

    def prepare(self, x, y):
        self.labels = [y.indices[a:b].tolist() for a, b in _rows(y)]

    def train(self, x, y):
        self.model.fit(x, self.labels)

    def save(self, folder):
        self.saved.rename(folder)
        self.model.set_params(output=str(folder))
        self.model.load()

    def predict(self, x, k):
        return _padded(self.model.predict_proba(x, top_k=k), k)


class Pecos:
    """XR-Linear; with `tree: false` one classifier a label and no tree."""

    package = "libpecos"

    def __init__(self, folder, threads, settings):
        self.threads, self.settings = threads, dict(settings)
        self.tree = self.settings.pop("tree", True)

    def prepare(self, x, y):
        pass

    def train(self, x, y):
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.xlinear.model import XLinearModel

        tree = None
        if self.tree:
            states = LabelEmbeddingFactory.create(y, x, method="pifa")
            tree = Indexer.gen(states, threads=self.threads)
        self.kind = XLinearModel
        self.model = XLinearModel.train(
            x, y.tocsc(), C=tree, threads=self.threads, **self.settings
        )

    def save(self, folder):
        self.model.save(str(folder))
        # The form that it has for serving is the faster one.
        self.model = self.kind.load(str(folder), is_predict_only=True)

    def predict(self, x, k):
        found = self.model.predict(
            x, beam_size=10, only_topk=k, threads=self.threads
        ).tocsr()
        best = [
            zip(found.indices[a:b], found.data[a:b], strict=True)
            for a, b in _rows(found)
        ]
        return _padded([sorted(row, key=lambda pair: -pair[1]) for row in best], k)


METHODS = {"omikuji": Omikuji, "napkinxc": Napkinxc, "pecos": Pecos}


def _rows(matrix):
    return zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)


def _row(matrix, row):
    """The (column, value) pairs of a row."""
    place = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return list(
        zip(matrix.indices[place].tolist(), matrix.data[place].tolist(), strict=True)
    )


def _padded(rows, k):
    """Rows of (id, score), best first, as two arrays [N, k]; -1 where there is none."""
    ids = np.full((len(rows), k), -1, "int32")
    scores = np.zeros((len(rows), k), "float32")
    for place, row in enumerate(rows):
        for rank, (label, score) in enumerate(row[:k]):
            ids[place, rank], scores[place, rank] = label, score
    return ids, scores


def _peak_mib():
    """The most memory that this process had.

    `ru_maxrss` begins with what the driver had when it started this process, so Linux
    is asked for the peak of the program that runs now.
    """
    status = Path("/proc/self/status")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        peak = int(lines["VmHWM"].split()[0])
    return round(peak / 1024, 1)


def _size_mib(folder):
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return round(sum(sizes) / 2**20, 2)


def measure(request):
    """Trains, saves and predicts; returns what it cost.

    Args:
        request: dict of `method`, a key of `METHODS`, its `settings`, `threads`,
            `top_k`, the `folder` to work in and the paths `train_features`,
            `train_labels`, `test_features` and `predictions`.
    """
    folder = Path(request["folder"])
    paths = [request[n] for n in ("train_features", "train_labels", "test_features")]
    x, y, test = (scipy.sparse.load_npz(path).tocsr() for path in paths)
    method = METHODS[request["method"]]
    peer = method(folder, request["threads"], request["settings"])
    peer.prepare(x, y)
    before = _peak_mib()
    started = time.perf_counter()
    peer.train(x, y)
    seconds = time.perf_counter() - started
    trained = _peak_mib()
    peer.save(folder / "saved")
    started = time.perf_counter()
    ids, scores = peer.predict(test, request["top_k"])
    predicted = time.perf_counter() - started
    np.savez(request["predictions"], ids=ids, scores=scores)
    return {
        "version": f"{peer.package} {importlib.metadata.version(peer.package)}",
        "train_seconds": round(seconds, 2),
        "predict_seconds_per_1000": round(1000 * predicted / test.shape[0], 4),
        "model_mib": _size_mib(folder / "saved"),
        "peak_mib_before": before,
        "peak_mib_training": trained,
        "peak_mib": _peak_mib(),
    }


def write_features(request):
    """TF-IDF of words, fitted on the training texts.

    Args:
        request: dict of the paths `train_texts`, `test_texts` (JSON lists),
            `train_features` and `test_features`.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [
        json.loads(Path(request[name]).read_text(encoding="utf-8"))
        for name in ("train_texts", "test_texts")
    ]
    vectorizer = TfidfVectorizer(sublinear_tf=True, dtype=np.float32)
    train, test = vectorizer.fit_transform(texts[0]), vectorizer.transform(texts[1])
    for name, features in (("train_features", train), ("test_features", test)):
        features.sort_indices()
        scipy.sparse.save_npz(request[name], features)
    version = importlib.metadata.version("scikit-learn")
    return {"version": f"scikit-learn {version}", "features": train.shape[1]}


def main(path):
    """Answers a request; the JSON file `answer` of the request has the answer."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    features = request["method"] == "features"
    answer = write_features(request) if features else measure(request)
    Path(request["answer"]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
