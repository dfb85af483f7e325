"""scikit-learn peer of `millstream bench kmeans`, driven by JSON lines as described in bench/internal/kmeansbench: load, fit.

    python bench_kmeans.py
"""

import json
import sys
import time

import numpy
from sklearn.cluster import KMeans


def load(c):
    x = numpy.fromfile(c["path"], dtype=c["type"]).reshape(c["features"], c["rows"])
    return numpy.ascontiguousarray(x.T)


def fit(x, c):
    k = c["k"]
    model = KMeans(k, init=x[:k].copy(), n_init=1, max_iter=c["iterations"], tol=0, algorithm="lloyd")
    begin = time.perf_counter()
    model.fit(x)
    seconds = time.perf_counter() - begin
    # In double precision, in parts: scikit-learn sums in the type of the data.
    inertia, centers = 0.0, model.cluster_centers_.astype("float64")
    for at in range(0, len(x), 1 << 16):
        part = x[at : at + (1 << 16)].astype("float64")
        inertia += float(((part - centers[model.labels_[at : at + (1 << 16)]]) ** 2).sum())
    return {"seconds": seconds, "inertia": inertia, "counts": numpy.bincount(model.labels_, minlength=k).tolist()}


def main():
    x = None
    for line in sys.stdin:
        c = json.loads(line)
        try:
            if c["op"] == "load":
                x = load(c)
                answer = {"rows": len(x)}
            else:
                answer = fit(x, c)
        except Exception as e:  # noqa: BLE001
            answer = {"error": repr(e)}
        print(json.dumps(answer), flush=True)


main()
