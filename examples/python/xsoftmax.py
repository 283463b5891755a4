"""libxsoftmax from Python, with the standard library alone.

    import xsoftmax
    model = xsoftmax.train("train.txt")
    model.save("my.model")
    for labels in model.predict("new.txt", top=3):
        print(*labels)

Library is the whole interface, made from the JSON that is installed with the library; train(), load() and Model are the
calls that most programs need. The library and the JSON are those of $XSOFTMAX_LIBRARY and $XSOFTMAX_ABI, or what
pkg-config says.
"""
import ctypes
import json
import os
import re
import subprocess

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


_library = None


def library():
    """The library of this process."""
    global _library
    if _library is None:
        def asked(variable):
            return subprocess.run(["pkg-config", "--variable=" + variable, "xsoftmax"], text=True, check=True,
                                  capture_output=True).stdout.strip()
        _library = Library(os.environ.get("XSOFTMAX_LIBRARY") or os.path.join(asked("libdir"), "libxsoftmax.so"),
                           os.environ.get("XSOFTMAX_ABI") or asked("abi"))
    return _library


class Model:
    """A model. `report` says how train() made it: its members are those of xsm_train_report; None of a loaded one."""

    def __init__(self, model, report=None):
        self.model, self.report = model, report

    def __del__(self):
        self.model.free()

    def save(self, path):
        library().model_save(self.model, path)

    def _map(self):
        made = library().struct("class_map")
        library().model_get_class_map(self.model, ctypes.byref(made))
        return made

    def labels(self):
        """The label of each class, as text."""
        xsm, mapped = library(), self._map()

        def label(k):
            text = ctypes.create_string_buffer(xsm.class_map_label(ctypes.byref(mapped), k, None, 0) + 1)
            xsm.class_map_label(ctypes.byref(mapped), k, text, len(text))
            return text.value.decode()

        return [label(k) for k in range(mapped.classes)]

    def predict(self, path, top=5, probabilities=False):
        """The labels of the `top` best classes of each row of a file; with probabilities pairs of these and labels."""
        xsm, mapped, labels = library(), self._map(), self.labels()
        read = xsm.struct("read_options", classes=mapped)
        with xsm.make("dataset_read", None, path, ctypes.byref(read)) as rows:
            xsm.model_transform(self.model, rows)
            info, batch = xsm.struct("dataset_info"), xsm.struct("batch")
            xsm.dataset_get_info(rows, ctypes.byref(info))
            xsm.batch_set_range(ctypes.byref(batch), rows, 0, info.rows)
            top, count = min(top, len(labels)), info.rows
            classes, lengths = (ctypes.c_uint32 * (count * top))(), (ctypes.c_uint32 * count)()
            likely = (ctypes.c_double * (count * top))() if probabilities else None
            options = xsm.struct("predictor_options", top=top)
            prediction = xsm.struct("prediction", batch=batch, classes=classes, lengths=lengths, probabilities=likely)
            xsm.predict(None, self.model, ctypes.byref(options), ctypes.byref(prediction))
        spans = [range(i * top, i * top + lengths[i]) for i in range(count)]
        return [[(likely[j], labels[classes[j]]) if probabilities else labels[classes[j]] for j in span] for span in spans]


def train(path, **named):
    """Trains a model on the rows of a file. What is named is a member of xsm_train_options: method="softmax", seconds=60."""
    xsm = library()
    options, report = xsm.struct("train_options", **named), xsm.struct("train_report")
    out = ctypes.c_void_p()
    text = xsm.struct("text_options", word_ngrams=2)  # of rows of text; what is of use is chosen
    with xsm.make("dataset_read", None, path, ctypes.byref(xsm.struct("read_options", text=text))) as rows:
        xsm.train(None, rows, ctypes.byref(options), ctypes.byref(out), ctypes.byref(report))
    said = {name: getattr(report, name) for name, _ in report._fields_ if name not in ("size", "test")}
    return Model(Object(xsm, "model", out.value),
                 {name: value.decode() if isinstance(value, bytes) else value for name, value in said.items()})


def load(path):
    """A saved model."""
    return Model(library().make("model_load", None, path, None))
