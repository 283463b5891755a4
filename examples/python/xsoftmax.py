"""libxsoftmax from Python, with the standard library alone; matrices need NumPy, and may be SciPy's.

    import xsoftmax
    model = xsoftmax.train("train.txt")
    model.save("my.model")
    for labels in model.predict("new.txt", top=3):
        print(*labels)

Library is the whole interface, made from the JSON that is installed with the library; train(), load() and Model are the
calls that most programs with files or texts need. Classifier has rows in memory, matrices or texts, and is one of scikit-learn's:

    classifier = xsoftmax.Classifier().fit(X, y)
    classifier.predict(X)

The library and the JSON are those of $XSOFTMAX_LIBRARY and $XSOFTMAX_ABI, or what
pkg-config says.
"""
import ctypes
import json
import os
import re
import subprocess
import warnings

try:
    import numpy as np
except ImportError:
    np = None  # Classifier alone needs it
try:
    from sklearn.base import BaseEstimator, ClassifierMixin
except ImportError:
    BaseEstimator = ClassifierMixin = None

SCALARS = {"char": ctypes.c_char, "float": ctypes.c_float, "double": ctypes.c_double, "size_t": ctypes.c_size_t,
           **{f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}")
              for sign in ("", "u") for bits in (8, 16, 32, 64)}}


class Error(Exception):
    """A call that failed: str() is the library's message, `status` the name of the status."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


class Cancelled(Error):
    """A call that ended early because a callback asked for it; what it had made is there."""


_raised = []  # by callbacks, which no exception may leave: the call that returns next raises the first


def _guarded(function, kind):
    """A function as a callback of this kind. An exception stops the call that it was called by: 1 is XSM_CANCELLED, a
    negative number a failure of reading or writing."""
    result = kind._restype_

    def called(*given):
        try:
            return function(*given)
        except BaseException as raised:
            _raised.append(raised)
            return None if result is None else -1 if result is ctypes.c_int64 else 1

    return kind(called)


def _given(value, kind):
    """A value as ctypes takes it for a member or an argument of this kind."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, os.PathLike):
        return os.fsencode(value)
    if isinstance(value, Object):
        return value._as_parameter_
    if isinstance(value, ctypes.Structure):
        return ctypes.pointer(value)
    if isinstance(value, ctypes.Array) and kind is ctypes.c_void_p:
        return ctypes.addressof(value)
    if hasattr(kind, "_restype_") and callable(value) and not isinstance(value, kind):
        return _guarded(value, kind)
    if not hasattr(value, "ctypes"):
        return value
    wanted = value.dtype if kind is ctypes.c_void_p else np.dtype(kind._type_)
    if value.dtype != wanted or not value.flags.c_contiguous:
        raise TypeError(f"an array of {value.dtype}, strides {value.strides}: accepted is one of {wanted} without gaps")
    return ctypes.cast(value.ctypes.data, kind)


TYPES = {"values": "dtype", "offsets": "offset_bits", "index": "index_bits"}  # which member says the type of an array


def _type_of(array):
    """The type of an array's numbers, as NumPy calls it."""
    if hasattr(array, "dtype"):
        return array.dtype.name if array.dtype.isnative else array.dtype.str
    kind, size = array._type_, 8 * ctypes.sizeof(array._type_)
    return f"float{size}" if kind in (ctypes.c_float, ctypes.c_double) else f"{'u' if kind(-1).value > 0 else ''}int{size}"


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

    def struct(self, name, /, **members):
        """A struct with its starting values, and then these: numbers, text, structs, functions, objects, and arrays of ctypes
        or NumPy, whose type it says (`dtype` and the like need not be given). It keeps what the members point to."""
        made, kinds = self.structs["xsm_" + name](), dict(self.structs["xsm_" + name]._fields_)
        self.struct_init("xsm_" + name, ctypes.byref(made), ctypes.sizeof(made))
        if not members.keys() <= kinds.keys():
            raise TypeError(f"xsm_{name} has no {min(members.keys() - kinds.keys())}; it has {', '.join(kinds)}")
        for member in members.keys() & TYPES.keys():
            self._say_type(member, kinds, members)
        made.kept = [(value, _given(value, kinds[member])) for member, value in members.items()]
        for member, (_, given) in zip(members, made.kept):
            setattr(made, member, given)
        return made

    def _say_type(self, member, kinds, members):
        """Adds the type of the array that is a struct's member to the members, if another member says it."""
        array, said = members[member], TYPES[member]
        if said not in kinds or not (hasattr(array, "ctypes") or isinstance(array, ctypes.Array)):
            return
        kind = _type_of(array)
        of = self.abi["values"].get("XSM_DTYPE_" + kind.upper()) if said == "dtype" else \
            {"int32": 32, "uint32": 32, "int64": 64, "uint64": 64}.get(kind)
        if of is None or members.setdefault(said, of) != of:
            accepted = "float32 or float64" if said == "dtype" else "integers of 32 or 64 bits"
            raise TypeError(f"{member} is an array of {kind}, {said} is {members.get(said)}: accepted is one of {accepted}, "
                            f"and {said} need not be given")

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
            if len(given) + fails != len(function.argtypes):
                raise TypeError(f"xsm_{name}() takes {len(function.argtypes) - fails} arguments, not {len(given)}")
            given = [_given(*each) for each in zip(given, function.argtypes)]
            error = self.structs["xsm_error"]()
            error.size = ctypes.sizeof(error)
            done = function(*given, ctypes.byref(error)) if fails else function(*given)
            if _raised:
                first = _raised[0]
                _raised.clear()
                raise first
            if not fails:
                return done
            if done:
                raise (Cancelled if done == self.CANCELLED else Error)(error.message.decode(), self.status_name(done).decode())

        setattr(self, name, call)
        return call

    def make(self, name, *given):
        """An object that the constructor `name` makes: make("model_load", None, path, None, None)."""
        out = ctypes.c_void_p()
        getattr(self, name)(*given, ctypes.byref(out))
        return Object(self, name.split("_")[0], out.value)


class Object:
    """An object of the library, which free(), the end of its `with` or Python's collector releases."""

    def __init__(self, library, kind, address):
        self.library, self.kind, self._as_parameter_ = library, kind, address

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.free()

    def __del__(self):
        self.free()

    def free(self):
        if self._as_parameter_:
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

    def save(self, path):
        library().model_save(self.model, path, None)

    def _map(self):
        made = library().struct("class_map")
        library().model_get_class_map(self.model, made)
        return made

    def labels(self):
        """The label of each class, as text."""
        xsm, mapped = library(), self._map()

        def label(k):
            text = ctypes.create_string_buffer(xsm.class_map_label(mapped, k, None, 0) + 1)
            xsm.class_map_label(mapped, k, text, len(text))
            return text.value.decode()

        return [label(k) for k in range(mapped.classes)]

    def best(self, rows, top, probabilities=False):
        """Of the `top` best classes of each row of a dataset, which this transforms: how many a row may have, the classes,
        how many each row has, and the probabilities or None, as arrays of ctypes."""
        if top < 1:
            raise ValueError(f"top is {top}; accepted is 1 or more")
        xsm, info, batch = library(), library().struct("dataset_info"), library().struct("batch")
        xsm.model_transform(self.model, rows)
        xsm.dataset_get_info(rows, info)
        xsm.batch_set_range(batch, rows, 0, info.rows)
        top, count = min(top, xsm.model_class_count(self.model)), info.rows
        classes, lengths = (ctypes.c_uint32 * (count * top))(), (ctypes.c_uint32 * count)()
        likely = (ctypes.c_double * (count * top))() if probabilities else None
        options = xsm.struct("predictor_options", top=top)
        prediction = xsm.struct("prediction", batch=batch, classes=classes, lengths=lengths, probabilities=likely)
        xsm.predict(None, self.model, options, prediction)
        return top, classes, lengths, likely

    def predict(self, rows, top=5, probabilities=False):
        """The labels of the `top` best classes of each row of a file or, if the model was trained on text, of each text of a
        list; with probabilities pairs of label and probability."""
        xsm, labels = library(), self.labels()
        read = xsm.struct("read_options", classes=self._map())
        named = isinstance(rows, (str, bytes, os.PathLike))
        with xsm.make("dataset_read", None, rows, None, read) if named else _read_texts(rows, read) as rows:
            top, classes, lengths, likely = self.best(rows, top, probabilities)
        spans = [range(i * top, i * top + length) for i, length in enumerate(lengths)]
        return [[(labels[classes[j]], likely[j]) if probabilities else labels[classes[j]] for j in span] for span in spans]


def _refuse_others(texts, name, accepted):
    """Refuses the first of a list that is no text."""
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name.format(i)} is {text!r:.60}; accepted is {accepted}")


def _read_texts(texts, how, labels=None):
    """A dataset of texts, of which line ends are blanks; labels are class numbers."""
    xsm = library()
    if how.classes and not how.classes.contents.vocabulary:
        raise ValueError("the model was not trained on text; accepted is the path of a file")
    texts = list(texts)
    _refuse_others(texts, "row {}", "a text each row")
    lines = [re.sub("[\r\n]", " ", text) + "\n" for text in texts]
    left = memoryview("".join(lines if labels is None else (f"{PREFIX}{k} {line}" for k, line in zip(labels, lines))).encode())

    def read(_, buffer, size):
        nonlocal left
        part, left = bytes(left[:size]), left[size:]
        ctypes.memmove(buffer, part, len(part))
        return len(part)

    source, how.format = xsm.struct("source", read=read), xsm.FORMAT_TEXT
    return xsm.make("dataset_read", None, None, xsm.struct("storage", name="the texts", source=source), how)


def train_rows(rows, **named):
    """Trains on the rows of a dataset. What is named is a member of xsm_train_options."""
    xsm, out = library(), ctypes.c_void_p()
    options, report = xsm.struct("train_options", **named), xsm.struct("train_report")
    xsm.train(None, rows, options, ctypes.byref(out), report)
    said = {name: getattr(report, name) for name, _ in report._fields_ if name not in ("size", "test")}
    return Model(Object(xsm, "model", out.value),
                 {name: value.decode() if isinstance(value, bytes) else value for name, value in said.items()})


def train(path, **named):
    """Trains a model on the rows of a file. What is named is a member of xsm_train_options: method="softmax", seconds=60."""
    xsm = library()
    text = xsm.struct("text_options", word_ngrams=2)  # of rows of text; what is of use is chosen
    with xsm.make("dataset_read", None, path, None, xsm.struct("read_options", text=text)) as rows:
        return train_rows(rows, **named)


def load(path):
    """A saved model."""
    return Model(library().make("model_load", None, path, None, None))


PREFIX = "\x1f"  # of labels in front of texts: white space to split(), so that no word of a text has it


def _warn_of_float32(X):
    """Warns of columns of a dense matrix whose numbers are too close together for float32, such as times."""
    kind = getattr(X, "dtype", None)
    try:
        X = np.asarray(X, float) if kind is None or kind.itemsize > 4 else None
    except (TypeError, ValueError):
        X = None
    if X is None or X.ndim != 2 or not X.size or not np.isfinite(X).all():
        return
    low, high = X.min(axis=0), X.max(axis=0)
    close = np.flatnonzero((high > low) & (high - low < np.maximum(abs(low), abs(high)) / 4096))
    if close.size:
        j = close[0]
        warnings.warn(f"{close.size} columns differ by less than 1/4096 of their size, the first is {j}, from {low[j]:.12g} to "
                      f"{high[j]:.12g}: float32 keeps few of their numbers apart; subtract a constant before", stacklevel=4)


class Classifier(*([ClassifierMixin, BaseEstimator] if BaseEstimator else [object])):
    """A classifier of rows in memory: a NumPy array, a SciPy matrix or texts, with one label a row. `method` is an
    estimator's name, "label-tree" or "class-means", `transforms` such as "tfidf,unit" what is done to rows first. What is 0
    or None is chosen from the rows, or for a named method the library's default.

    After fit(): `classes_`, the labels; `model_`, a Model; `report_`, what was done, as Model.report."""

    def __init__(self, method=None, *, optimizer=None, transforms=None, ridge=None, epochs=0, batch=0, eta=0.0, seconds=0.0,
                 word_ngrams=2, seed=1):
        self.method, self.optimizer, self.transforms, self.ridge = method, optimizer, transforms, ridge
        self.epochs, self.batch, self.eta, self.seconds = epochs, batch, eta, seconds
        self.word_ngrams, self.seed = word_ngrams, seed

    def _checked(self, X, y=None, first=False):
        """Rows as the library takes them: float32 matrices, or a list of texts; and labels."""
        X = X.tolist() if getattr(X, "ndim", 0) == 1 else X
        texts = isinstance(X, (list, tuple)) and any(isinstance(row, str) for row in X)
        accepted = "a list of texts, a text each row, or a matrix of numbers"
        if isinstance(X, (str, bytes)):
            raise ValueError(f"X is {X!r:.60}; accepted is {accepted}")
        if texts:
            _refuse_others(X, "row {} of X", accepted)
        if not first and not texts and self.model_._map().vocabulary:
            raise ValueError("the model was trained on text; accepted is a list of texts, a text each row")
        if np.ma.is_masked(X):
            raise ValueError("X has masked values; accepted are numbers alone, such as X.filled(0)")
        if first and not texts:
            _warn_of_float32(X)
        if texts or BaseEstimator is None:
            X = X if texts else X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
            count = len(X) if texts else X.shape[0]
            if y is not None and np.shape(y) != (count,):
                raise ValueError(f"y has the shape {np.shape(y)}; accepted is {count}, a label each row")
            return X if texts else X.astype(np.float32), y
        checks = {"accept_sparse": "csr", "dtype": np.float32, "reset": first, **({} if y is None else {"y": y})}
        try:
            try:
                from sklearn.utils.validation import validate_data  # from scikit-learn 1.6 on
                made = validate_data(self, X, **checks)
            except ImportError:
                made = self._validate_data(X, **checks)
        except ValueError as error:
            if "could not convert string" in str(error):
                raise ValueError(f"{error}; accepted is {accepted}: scikit-learn's "
                                 "OneHotEncoder(handle_unknown='ignore') makes numbers of categories") from None
            raise
        return (made, None) if y is None else made

    def _dataset(self, X, k=None, weight=None):
        """A dataset of checked rows, with the class of each."""
        xsm = library()
        if isinstance(X, (list, tuple)):
            if weight is not None:
                raise ValueError("sample_weight is for the rows of a matrix, and these are texts")
            X = [" ".join(row.split()) for row in X]
            if k is None:
                return _read_texts(X, xsm.struct("read_options", classes=self.model_._map()))
            text = xsm.struct("text_options", word_ngrams=self.word_ngrams, label_prefix=PREFIX)
            return _read_texts(X, xsm.struct("read_options", text=text), k)
        labels = k if k is None else xsm.struct("labels", classes=len(self.classes_), labels=k)
        weight = None if weight is None else np.ascontiguousarray(weight, np.float32)
        if weight is not None and weight.shape != X.shape[:1]:
            raise ValueError(f"sample_weight has the shape {weight.shape}; accepted is {X.shape[:1]}, a weight each row")
        more = {"rows": X.shape[0], "features": X.shape[1], "labels": labels, "weights": weight}
        if hasattr(X, "indptr"):
            X = X if X.has_canonical_format else X.copy()
            X.sum_duplicates()
            return xsm.make("dataset_from_csr", None, xsm.struct(
                "csr_rows", offsets=X.indptr, index=X.indices, values=X.data, **more))
        return xsm.make("dataset_from_dense", None, xsm.struct("dense_rows", values=np.ascontiguousarray(X), **more))

    def _train(self, X, k, weight=None, **more):
        xsm = library()
        steps = {"epochs": self.epochs, "batch": self.batch, "eta": self.eta, **more.pop("run", {})}
        run = xsm.struct("trainer_options", **steps)
        ridge = {} if self.ridge is None else {"ridge": self.ridge, "keep_ridge": 1}
        alone = self.method in ("label-tree", "class-means")
        with self._dataset(X, k, weight) as rows:
            self.model_ = train_rows(rows, **{"method": self.method, "optimizer": self.optimizer, "transform": self.transforms,
                                              "seconds": self.seconds, "seed": self.seed, "run": None if alone else run,
                                              **ridge, **more})
        self.report_ = self.model_.report
        self._number()
        return self

    def _number(self):
        """Which of `classes_` each class of the model is: those of texts stand in the order of their names."""
        self._order = np.array([int(label) for label in self.model_.labels()])

    def fit(self, X, y, sample_weight=None):
        """Trains on the rows but those of weight 0."""
        X, y = self._checked(X, y, first=True)
        _targets(y)
        self.classes_, k = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("the rows have 1 class: at least 2 classes are needed")
        return self._train(X, np.ascontiguousarray(k, np.uint32), sample_weight)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Steps over some more rows of a matrix, by sgd, without transforms; the first call names all classes."""
        if self.transforms not in (None, "none"):
            raise ValueError(f"transforms is {self.transforms!r}; partial_fit() accepts None: transform the rows first")
        first = not hasattr(self, "model_")
        X, y = self._checked(X, y, first)
        if isinstance(X, (list, tuple)):
            raise ValueError("partial_fit() accepts a matrix, and these are texts, which are for fit()")
        if first:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit")
            self.classes_ = np.unique(classes)
            bias = library().struct("model_options", bias=1)
            self.model_ = Model(library().make("model_new_linear", None, X.shape[1], len(self.classes_), bias))
        if not np.isin(y, self.classes_).all():
            raise ValueError("y has classes that the first call of partial_fit() did not name")
        k = np.ascontiguousarray(np.searchsorted(self.classes_, y), np.uint32)
        return self._train(X, k, sample_weight, method=self.method or "softmax", transform=None, seconds=0,
                           start=self.model_.model, run={"eta": self.eta or 0.1, "epochs": self.epochs or 1})

    def _best(self, X, top, probabilities):
        X, _ = self._checked(X)
        with self._dataset(X) as rows:
            top, classes, _, likely = self.model_.best(rows, top, probabilities)
        classes = np.ctypeslib.as_array(classes).reshape(-1, top)
        return self._order[classes], np.ctypeslib.as_array(likely).reshape(-1, top) if probabilities else None

    def predict(self, X):
        _check_fitted(self)
        return self.classes_[self._best(X, 1, False)[0][:, 0]]

    def top(self, X, top=5):
        """The labels of the best classes of each row, best first, and their probabilities: two arrays of rows."""
        _check_fitted(self)
        k, likely = self._best(X, top, True)
        return self.classes_[k], likely

    def predict_proba(self, X):
        """The probability of each of `classes_`; of a label tree 0 for those that its search does not find."""
        _check_fitted(self)
        k, likely = self._best(X, len(self.classes_), True)
        found = np.zeros((len(k), len(self.classes_)))
        np.put_along_axis(found, k, likely, axis=1)
        return found

    def save(self, path):
        """The model, which other programs read, too; the labels, numbers or text, are in its metadata."""
        _check_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        try:
            said = json.dumps([self.classes_.dtype.str, self.classes_.tolist(), getattr(self, "n_features_in_", None),
                               names if names is None else names.tolist()])
        except TypeError:
            raise TypeError(f"labels of {self.classes_.dtype}; accepted in files are numbers and text, in a pickle all") from None
        library().model_set_metadata(self.model_.model, "python.classes", said)
        self.model_.save(path)

    @classmethod
    def load(cls, path):
        made = cls()
        made.model_ = load(path)
        said = library().model_get_metadata(made.model_.model, "python.classes")
        if said is None:
            raise ValueError(f"{path}: no Classifier saved it; xsoftmax.load() accepts it")
        kind, labels, features, names = json.loads(said)
        made.classes_ = np.array(labels, kind)
        if features is not None:
            made.n_features_in_ = features
        if names is not None:
            made.feature_names_in_ = np.array(names, object)
        made._number()
        return made

    def __getstate__(self):
        """For pickle: the bytes of the model's file."""
        state = dict(self.__dict__)
        if "model_" in state:
            xsm, storage, count = library(), library().struct("storage"), ctypes.c_size_t()
            with xsm.make("buffer_new", None) as buffer:
                xsm.buffer_get_storage(buffer, storage)
                xsm.model_save(self.model_.model, None, storage)
                state["model_"] = ctypes.string_at(xsm.buffer_bytes(buffer, count), count.value)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        if "model_" in state:
            xsm, count = library(), len(state["model_"])
            words = (ctypes.c_uint64 * (count // 8 + 1))()  # aligned
            ctypes.memmove(words, state["model_"], count)
            storage = xsm.struct("storage", bytes=words, byte_count=count)
            copied = xsm.struct("load_options", copy=1)
            self.model_ = Model(xsm.make("model_load", None, None, storage, copied))


def _targets(y):
    if BaseEstimator is not None:
        from sklearn.utils.multiclass import check_classification_targets
        check_classification_targets(y)


def _check_fitted(classifier):
    if not hasattr(classifier, "model_"):
        if BaseEstimator is None:
            raise ValueError("fit() comes first")
        from sklearn.exceptions import NotFittedError
        raise NotFittedError(f"This {type(classifier).__name__} instance is not fitted yet: fit() comes first.")
