"""XR-Linear of PECOS (Yu, Zhong, Zhang, Chang and Dhillon 2022) on rows that peers.py has stored: run by it as

    PECOS=CHECKOUT python3 xr_linear.py ROWS.npz OUT.npz THREADS [tfidf]

CHECKOUT is a working PECOS, whose C++ part is built. Settings are its own for one tree: label vectors from the rows (PIFA),
hierarchical 2-means, at most 100 labels a leaf, 16 children a node, squared hinge with C = 1, weights below 0.1 left out; a beam
of 10. Rows of unit length, after tf-idf where it is asked for. $XR_LINEAR_SEED is the seed of the clustering, 0 by default.
"""
import os
import sys
import tempfile
import time

import numpy
from scipy import sparse

QUERIES = 1000  # rows that the time of a query is measured on
BEST = 10  # labels that are printed of each row


def learn(data, threads, tfidf):
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.preprocessing import normalize

    def part(name, columns):
        starts = data[name + "_starts"]
        return sparse.csr_matrix((data[name + "_value"], data[name + "_index"], starts), (len(starts) - 1, columns))

    x, t = part("train", int(data["features"])), part("test", int(data["features"]))
    if tfidf:
        transform = TfidfTransformer().fit(x)
        x, t = transform.transform(x), transform.transform(t)
    x, t = (normalize(m).astype(numpy.float32).tocsr() for m in (x, t))
    for m in (x, t):
        m.sort_indices()
    labels = part("label", 1 + int(data["label_index"].max())).astype(numpy.float32)
    used = numpy.unique(labels.indices)
    labels = labels[:, used].tocsr()
    start, before = time.monotonic(), time.process_time()
    clusters = Indexer.gen(LabelEmbeddingFactory.create(labels, x, method="pifa"), indexer_type="hierarchicalkmeans",
                           threads=threads, seed=int(os.environ.get("XR_LINEAR_SEED", "0")))
    model = XLinearModel.train(x, labels.tocsc(), C=clusters, threads=threads, threshold=0.1)
    result = {"seconds": time.monotonic() - start, "processor_seconds": time.process_time() - before}
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        result["bytes"] = sum(os.path.getsize(os.path.join(at, f)) for at, _, files in os.walk(folder) for f in files)
    some = t[:QUERIES]
    before = time.process_time()
    model.predict(some, only_topk=5, beam_size=10, threads=1)
    result["query_ms"] = 1e3 * (time.process_time() - before) / some.shape[0]
    found = model.predict(t, only_topk=BEST, beam_size=10, threads=threads)
    best = numpy.full((t.shape[0], BEST), -1)
    for i in range(t.shape[0]):
        row = found[i]
        order = used[row.indices[numpy.argsort(-row.data, kind="stable")]]
        best[i, :len(order)] = order
    return {**result, "best": best}


if __name__ == "__main__":
    sys.path.insert(0, os.environ["PECOS"])
    numpy.savez(sys.argv[2], **learn(numpy.load(sys.argv[1]), int(sys.argv[3]), "tfidf" in sys.argv[4:]))
