"""A label tree on made-up rows of very many labels: seconds, memory, size, time of a query and precision, beside the best that
can be reached; see bench/many_labels.sh."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers import QUERIES, query_ms, run_xr_linear  # noqa: E402
from rows import Rows  # noqa: E402

KS = (1, 3, 5)


def generate(options, part, shape, path):
    """Writes rows; returns what the best ranking of them reaches."""
    with open(path, "w") as out:
        said = subprocess.run([options.generator, part, *shape], stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    if said.returncode:
        sys.exit(said.stderr.strip())
    return [float(p) for p in re.findall(r"P@[135] ([0-9.]+)", said.stderr)], said.stderr.strip()


def precision(labels, ranked):
    hits = [0] * len(KS)
    for truth, best in zip(labels, ranked):
        for i, k in enumerate(KS):
            hits[i] += len(set(truth) & set(best[:k])) / k
    return [h / len(labels) for h in hits]


def labels_of(lines):
    return [[int(l) for l in line.split(" ", 1)[0].split(",")] for line in lines]


def ours(options, folder, train, lines):
    model, test = os.path.join(folder, "model"), os.path.join(folder, "test.txt")
    start = time.monotonic()
    done = subprocess.run([options.program, "train", "--data", train, "--labels", "all", *options.flags.split(), "--threads",
                           str(options.threads), "--model", model, "--no-evaluate", "--json"], stdout=subprocess.PIPE,
                          text=True, check=False)
    seconds = time.monotonic() - start
    if done.returncode:
        sys.exit(done.returncode)
    said = json.loads(done.stdout)
    predict = [options.program, "predict", "--model", model, "--top", "5", "--data"]
    printed = subprocess.run([*predict, test, "--threads", str(options.threads)], stdout=subprocess.PIPE, text=True, check=True)
    ranked = [[int(found.rpartition(":")[0]) for found in line.split("\t")] for line in printed.stdout.splitlines()]
    head = lines[0].split(" ", 1)[1]
    return {"program": "xsoftmax", "method": said["method"], "rows": said["examples"], "seconds": seconds,
            "peak_bytes": said["peak_bytes"], "bytes": os.path.getsize(model),
            "query_ms": query_ms(lambda path: [*predict, path, "--threads", "1"], model, lines[1:QUERIES + 1],
                                 lambda count: f"{count} {head}"),
            "precision": precision(labels_of(lines[1:]), ranked)}


def peer(options, folder, train, lines):
    """XR-Linear on those rows; the same test rows."""
    x, t = Rows(train), Rows(os.path.join(folder, "test.txt"))
    keep, test_keep = list(range(len(x.labels))), list(range(len(t.labels)))
    start = time.monotonic()
    spent, ranked = run_xr_linear(folder, x, keep, x.labels, t, test_keep, 36000, options.threads, False)
    print(f"XR-Linear, with reading: {time.monotonic() - start:.0f} s", file=sys.stderr)
    return {"program": "XR-Linear", "method": "pecos", "rows": len(keep), "peak_bytes": None,
            **{name: spent[name] for name in ("seconds", "bytes", "query_ms")},
            "precision": precision(labels_of(lines[1:]), ranked)}


def show(result, best, options):
    if options.json:
        print(json.dumps({**result, "best": best}), flush=True)
        return
    cells = " ".join(f"{p:.4f}" for p in result["precision"])
    size = "-" if result["peak_bytes"] is None else f"{result['peak_bytes'] / 2 ** 20:.0f}"
    query = "-" if result["query_ms"] is None else f"{result['query_ms']:.3f}"
    print(f"{result['program'] + ' ' + result['method']:<24} {result['rows']:>9} {result['seconds']:>9.1f} {size:>10} "
          f"{result['bytes'] / 2 ** 20:>9.0f} {query:>9}  {cells}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="many_labels.sh", description="A label tree on made-up rows of Amazon-670K's shape.")
    parser.add_argument("shape", nargs="*", metavar="NAME=NUMBER", help="as for bench_generate_labels")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--generator", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--flags", default="--method label-tree --transform unit", help="of xsoftmax train")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--folder", help="where the rows lie for a while")
    parser.add_argument("--json", action="store_true", help="a line of JSON a program, nothing else")
    options = parser.parse_args()
    rows = [s for s in options.shape if s.startswith("rows=")]
    others = [s for s in options.shape if not s.startswith("rows=")]
    with tempfile.TemporaryDirectory(prefix="xsoftmax-many-labels.", dir=options.folder) as folder:
        text, cache, test = (os.path.join(folder, name) for name in ("train.txt", "train.cache", "test.txt"))
        _, said = generate(options, "train", rows + others, text)
        best, tested = generate(options, "test", others, test)
        subprocess.run([options.program, "convert", "--data", text, "--to", "cache", "--output", cache], check=True,
                       stdout=subprocess.DEVNULL)
        with open(test) as file:
            lines = list(file)
        if not options.json:
            print(f"training rows: {said}\ntest rows:     {tested}\n{options.threads} threads\n")
            print(f"{'method':<24} {'rows':>9} {'seconds':>9} {'peak MiB':>10} {'file MiB':>9} {'ms/query':>9}  P@1 P@3 P@5")
        show(ours(options, folder, cache, lines), best, options)
        if os.environ.get("PECOS"):
            count = max(1, int(open(text).readline().split()[0]) // 10)
            generate(options, "train", [f"rows={count}"] + others, text)
            show(peer(options, folder, text, lines), best, options)


if __name__ == "__main__":
    main()
