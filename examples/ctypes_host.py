#!/usr/bin/env python3
"""A host in Python, with the standard library alone: trains, evaluates, predicts, saves and loads.

    ctypes_host.py LIBRARY XSOFTMAX-ABI.JSON [DATA]

LIBRARY is libxsoftmax.so; xsoftmax-abi.json is installed with it and describes every struct, constant and function. DATA
is a file in any format that the library reads; without it the rows are made up.
"""
import ctypes
import json
import os
import random
import re
import sys
import tempfile

SCALARS = {"char": ctypes.c_char, "float": ctypes.c_float, "double": ctypes.c_double, "size_t": ctypes.c_size_t,
           **{f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}")
              for sign in ("", "u") for bits in (8, 16, 32, 64)}}


class Error(Exception):
    """A call that failed: str() is the library's message, `status` the name of the status."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


class Library:
    """Everything in the JSON by its name without `xsm_` or `XSM_`: library.model_load(...), library.FORMAT_CSV."""

    def __init__(self, library, description):
        self.shared = ctypes.CDLL(library)
        with open(description, encoding="utf-8") as file:
            self.abi = json.load(file)
        if self.abi["pointer"] != ctypes.sizeof(ctypes.c_void_p):
            raise OSError(f"{description} is for pointers of {self.abi['pointer']} bytes")
        self.structs = {name: type(name, (ctypes.Structure,), {}) for name in self.abi["structs"]}
        for name, struct in self.abi["structs"].items():
            made = self.structs[name]
            made._fields_ = [(member["name"], self.kind(member)) for member in struct["members"]]
            places = [(getattr(made, member["name"]).offset, getattr(made, member["name"]).size)
                      for member in struct["members"]]
            if places != [(member["offset"], member["size"]) for member in struct["members"]] \
                    or ctypes.sizeof(made) != struct["size"]:
                raise OSError(f"{description} lays {name} out in another way than this machine")

    def kind(self, entry):
        """The ctypes type of a member or argument."""
        if "function" in entry:
            result, arguments = entry["function"]["result"], entry["function"]["arguments"]
            return ctypes.CFUNCTYPE(self.named(result), *map(self.kind, arguments))
        kind = self.named(entry["type"])
        return kind * entry["count"] if "count" in entry else kind

    def named(self, text):
        base, stars = re.fullmatch(r"(\w+)([ *]*)", text.replace("const", "").strip()).groups()
        stars = stars.count("*")
        if base in self.abi["types"]:
            kind = self.kind(self.abi["types"][base])
        else:
            kind = self.structs.get(base) or SCALARS.get(base)  # None: void, or an object of the library
        if stars and kind is None:
            kind, stars = ctypes.c_void_p, stars - 1
        elif stars and base == "char":
            kind, stars = ctypes.c_char_p, stars - 1
        for _ in range(stars):
            kind = ctypes.POINTER(kind)
        return kind

    def struct(self, name, **members):
        """A struct with its starting values, and then these. It keeps what the members point to."""
        made = self.structs["xsm_" + name]()
        self.struct_init("xsm_" + name, ctypes.byref(made), ctypes.sizeof(made))
        for member, value in members.items():
            if isinstance(value, ctypes.Structure):
                value = ctypes.pointer(value)
            elif isinstance(value, ctypes.Array) and dict(made._fields_)[member] is ctypes.c_void_p:
                made.kept = getattr(made, "kept", []) + [value]
                value = ctypes.addressof(value)
            setattr(made, member, value.encode() if isinstance(value, str) else value)
        return made

    def __getattr__(self, name):
        if "XSM_" + name in self.abi["values"]:
            return self.abi["values"]["XSM_" + name]
        entry = self.abi["functions"].get("xsm_" + name)
        if not entry:
            raise AttributeError(f"libxsoftmax {self.abi['version']} has no xsm_{name}()")
        function = getattr(self.shared, "xsm_" + name)
        function.restype = self.named(entry["result"])
        function.argtypes = [self.kind(argument) for argument in entry["arguments"]]
        fails = entry["result"] == "xsm_status" and entry["arguments"][-1:] == [{"name": "err", "type": "xsm_error *"}]

        def call(*given):
            given = [value.encode() if isinstance(value, str) else value for value in given]
            if not fails:
                return function(*given)
            error = self.structs["xsm_error"]()
            error.size = ctypes.sizeof(error)
            if function(*given, ctypes.byref(error)):
                raise Error(error.message.decode(), self.status_name(error.status).decode())

        setattr(self, name, call)
        return call

    def make(self, name, *given):
        """An object that the constructor `name` makes: make("model_load", None, path, None)."""
        out = ctypes.c_void_p()
        getattr(self, name)(*given, ctypes.byref(out))
        return Object(self, name.split("_")[0], out.value)


class Object:
    """An object of the library, which free() or the end of its `with` releases."""

    def __init__(self, library, kind, address):
        self.library, self.kind, self._as_parameter_ = library, kind, address

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.free()

    def free(self):
        getattr(self.library, self.kind + "_free")(self._as_parameter_)
        self._as_parameter_ = None


def made_up(xsm, classes, features, rows):
    """Rows around the centre of their class."""
    source = random.Random(1)
    centres = [[source.gauss(0, 1) for _ in range(features)] for _ in range(classes)]
    labels = [i % classes for i in range(rows)]
    values = [centre + source.gauss(0, 0.3) for label in labels for centre in centres[label]]
    return xsm.make("dataset_from_dense", None, xsm.struct(
        "dense_rows", values=(ctypes.c_float * len(values))(*values), rows=rows, features=features,
        labels=xsm.struct("labels", classes=classes, labels=(ctypes.c_uint32 * rows)(*labels))))


def train(xsm, model, rows, epochs):
    """Trains with a callback. An exception in it stops the training, and comes out here."""
    raised = []

    def progress(_, now):
        try:
            if now.contents.epoch_ended:
                print(f"epoch {now.contents.epoch} of {now.contents.epochs}: loss {now.contents.loss:.3f}")
            return 0
        except BaseException as exception:  # ctypes would print it and go on
            raised.append(exception)
            return 1

    options = xsm.struct("trainer_options", epochs=epochs, eta=0.5, schedule=xsm.SCHEDULE_INVERSE_SQRT,
                         progress=xsm.named("xsm_progress_function")(progress))
    with xsm.make("estimator_new", None, "ove") as estimator, xsm.make("optimizer_new", None, "sgd") as optimizer:
        with xsm.make("trainer_new", None, model, rows, estimator, optimizer, ctypes.byref(options)) as trainer:
            try:
                xsm.trainer_run(trainer)
            except Error:
                if raised:
                    raise raised[0]
                raise


def evaluate(xsm, model, rows):
    precision = (ctypes.c_double * 5)()
    metrics = xsm.struct("metrics", top=5, precision=precision)
    xsm.evaluate(None, model, rows, None, ctypes.byref(metrics))
    return metrics.log_loss, 1 - metrics.error, list(precision)


def predict(xsm, model, rows, first, count):
    """The five best classes of some rows, with probabilities."""
    batch = xsm.struct("batch")
    xsm.batch_set_range(ctypes.byref(batch), rows, first, count)
    options = xsm.struct("predictor_options", top=5)
    with xsm.make("predictor_new", model, ctypes.byref(options)) as predictor:
        info = xsm.struct("predictor_info")
        xsm.predictor_get_info(predictor, ctypes.byref(info))
        top = info.top
        classes, probabilities = (ctypes.c_uint32 * (count * top))(), (ctypes.c_double * (count * top))()
        xsm.predictor_run(predictor, ctypes.byref(xsm.struct("prediction", batch=batch, classes=classes,
                                                             probabilities=probabilities)))
    return [list(zip(classes[i * top:(i + 1) * top], probabilities[i * top:(i + 1) * top])) for i in range(count)]


def main():
    xsm = Library(sys.argv[1], sys.argv[2])
    print(f"libxsoftmax {xsm.version_string().decode()}")
    with xsm.make("dataset_read", None, sys.argv[3], None) if sys.argv[3:] else made_up(xsm, 20, 8, 2000) as rows:
        info = xsm.struct("dataset_info")
        xsm.dataset_get_info(rows, ctypes.byref(info))
        print(f"{info.rows} rows, {info.features} features, {info.classes} classes")
        with xsm.make("model_new_linear", None, info.features, info.classes, None) as model:
            train(xsm, model, rows, 5)
            loss, accuracy, precision = evaluate(xsm, model, rows)
            print(f"log-loss {loss:.3f}, accuracy {accuracy:.3f}, precision@5 {precision[4]:.3f}")
            best = predict(xsm, model, rows, 0, min(3, info.rows))
            for row, found in enumerate(best):
                print(f"row {row}: " + ", ".join(f"class {k} ({p:.3f})" for k, p in found))
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "my.model")
                xsm.model_save(model, path)
                with xsm.make("model_load", None, path, None) as loaded:
                    same = predict(xsm, loaded, rows, 0, len(best)) == best
                print("saved and loaded: " + ("the same predictions" if same else "OTHER predictions"))
    return 0 if same else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Error as error:
        sys.exit(f"ctypes_host: {error}")
