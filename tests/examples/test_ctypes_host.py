"""The host in Python: what it prints, its errors, exceptions in callbacks, and that all is freed.

    test_ctypes_host.py CTYPES_HOST LIBRARY XSOFTMAX-ABI.JSON
"""
import ctypes
import importlib.util
import math
import os
import re
import subprocess
import sys
import tempfile

HOST, LIBRARY, ABI = sys.argv[1:4]
spec = importlib.util.spec_from_file_location("ctypes_host", HOST)
host = importlib.util.module_from_spec(spec)
spec.loader.exec_module(host)


def run(*arguments):
    return subprocess.run([sys.executable, HOST, LIBRARY, ABI, *arguments], text=True, capture_output=True)


def check(condition, text):
    if not condition:
        sys.exit(f"failed: {text}")


def test_program(folder):
    made_up = run()
    check(made_up.returncode == 0 and made_up.stderr == "", made_up.stdout + made_up.stderr)
    check(len(re.findall(r"^epoch \d of 5: loss \d", made_up.stdout, re.M)) == 5, made_up.stdout)
    # Twenty centres far apart, in eight dimensions.
    check(float(re.search(r"accuracy ([\d.]+)", made_up.stdout).group(1)) > 0.95, made_up.stdout)
    check("the same predictions" in made_up.stdout, made_up.stdout)
    path = os.path.join(folder, "rows.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{1 + i % 7} {1 + i % 7}:1\n" for i in range(70))
    read = run(path)
    check(read.returncode == 0 and "70 rows, 7 features, 7 classes" in read.stdout, read.stdout + read.stderr)
    with open(path, "a", encoding="utf-8") as file:
        file.write("1 2:x\n")
    wrong = run(path)
    check(wrong.returncode == 1 and "Traceback" not in wrong.stderr and "71" in wrong.stderr and path in wrong.stderr,
          wrong.stderr)


def types(entry):
    """Every type in an entry of the JSON."""
    if isinstance(entry, list):
        return [kind for part in entry for kind in types(part)]
    if isinstance(entry, dict):
        return [kind for key, part in entry.items() for kind in ([part] if key in ("type", "result") else types(part))]
    return []


def test_types(xsm):
    """The JSON names no type that it does not have, and no struct goes by value."""
    abi, found = xsm.abi, set()
    known = [*abi["types"], *abi["opaque"], "void", *host.SCALARS]
    for part in ("types", "structs", "functions"):
        for kind in types(list(abi[part].values())):
            base = re.sub(r"const|[ *]", "", kind)
            check(base in known or (base in abi["structs"] and "*" in kind), f"unknown type '{kind}'")
            found.add(base)
    check(len(found) > 40, f"only {len(found)} types")


def test_calls(xsm):
    try:
        xsm.make("model_load", None, "/nowhere/my.model", None, None)
        check(False, "a file that is not there is loaded")
    except host.Error as error:
        check(error.status == "XSM_ERROR_IO" and "/nowhere/my.model" in str(error), str(error))
    check(not hasattr(xsm, "model_lode") and not hasattr(xsm, "FORMAT_NONE"), "names that are not in the JSON")
    check(xsm.NO_ID == 2 ** 64 - 1 and xsm.DEFAULT == -1, "constants")
    check(xsm.struct("fit_options").tolerance == -1, "a member whose default is not zero")
    # Every struct of the JSON with a size, by its own name, of the size that ctypes finds.
    for name, struct in xsm.abi["structs"].items():
        if struct["grows"]:
            check(xsm.struct(name[len("xsm_"):]).size == struct["size"], name)
    # Every function of libxsoftmax in the JSON exists and has types that ctypes knows.
    for name, function in xsm.abi["functions"].items():
        if function["library"] == "xsoftmax":
            getattr(xsm, name[len("xsm_"):])


def softmax(scores):
    top = max(scores)
    parts = [math.exp(score - top) for score in scores]
    return [part / sum(parts) for part in parts]


def test_predictions(xsm):
    """Probabilities against a model whose weights are known: row e_j has the scores w[.][j]."""
    weights = [[0.5 * k - 0.25 * j * k for j in range(2)] for k in range(6)]
    rows = xsm.make("dataset_from_dense", None, xsm.struct(
        "dense_rows", values=(ctypes.c_float * 4)(1, 0, 0, 1), rows=2, features=2))
    with rows, xsm.make("model_new_linear", None, 2, 6, None) as model:
        parameters = xsm.struct("parameters")
        xsm.model_get_parameters(model, ctypes.byref(parameters))
        stored = ctypes.cast(parameters.weight, ctypes.POINTER(ctypes.c_float))
        for k in range(6):
            for j in range(2):
                stored[k * parameters.class_step + j * parameters.feature_step] = weights[k][j]
        found = host.predict(xsm, model, rows, 0, 2)
    for j, best in enumerate(found):
        expected = softmax([weights[k][j] for k in range(6)])
        order = sorted(range(6), key=lambda k: -expected[k])[:5]
        check([k for k, _ in best] == order, f"{best} in place of {order}")
        check(all(abs(p - expected[k]) < 1e-6 for k, p in best), f"{best} in place of {expected}")


def test_callbacks_and_memory(xsm):
    """An exception in a callback comes out of train(). What is made is freed: counted by an allocator in Python."""
    blocks = {}
    structs = xsm.structs

    def allocate(_, size, alignment):
        memory = ctypes.create_string_buffer(size + alignment)
        address = -(-ctypes.addressof(memory) // alignment) * alignment
        blocks[address] = memory
        return address

    def release(_, address, size, alignment):
        del blocks[address]

    allocator = xsm.struct("allocator", allocate=allocate, release=release)
    with xsm.make("context_new", xsm.struct("context_options", allocator=allocator, threads=1)) as context:
        made = xsm.make

        def make(name, *given):  # the host's functions with this context
            has_context = xsm.abi["functions"]["xsm_" + name]["arguments"][0]["type"] == "xsm_context *"
            return made(name, *(context, *given[1:]) if has_context else given)

        xsm.make = make
        with host.made_up(xsm, 20, 8, 200) as rows, xsm.make("model_new_linear", None, 8, 20, None) as model:
            before = len(blocks)
            host.train(xsm, model, rows, 1)
            host.predict(xsm, model, rows, 0, 3)
            check(before > 2 and len(blocks) == before, f"{len(blocks) - before} blocks are left by train and predict")
            host.print = lambda *_: 1 / 0  # what the callback calls
            try:
                host.train(xsm, model, rows, 1)
                check(False, "the exception in the callback is lost")
            except ZeroDivisionError:
                pass
            finally:
                del host.print
            check(len(blocks) == before, "blocks are left by a cancelled run")
    check(not blocks, f"{len(blocks)} blocks are left at the end")


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_program(folder)
    xsm = host.Library(LIBRARY, ABI)
    test_types(xsm)
    test_calls(xsm)
    test_predictions(xsm)
    test_callbacks_and_memory(xsm)


if __name__ == "__main__":
    main()
