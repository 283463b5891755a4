"""examples/python/xsoftmax.py: scikit-learn's own checks, its answers, sparse rows, texts, steps, files, and life without it.

    test_python.py XSOFTMAX.PY LIBRARY XSOFTMAX-ABI.JSON     ends with 77, skipped, where scikit-learn or SciPy is missing
"""
import ctypes
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings

os.environ["XSOFTMAX_LIBRARY"], os.environ["XSOFTMAX_ABI"] = map(os.path.abspath, sys.argv[2:4])
sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[1])))
try:
    import numpy as np
    import scipy.sparse
    import sklearn.linear_model
    from sklearn.utils.estimator_checks import check_estimator
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
import xsoftmax  # noqa: E402

warnings.simplefilter("ignore")
rng = np.random.default_rng(5)
X = rng.normal(size=(400, 6)).astype(np.float32)
y = np.array(["ant", "bee", "cat", "dog"])[(X[:, :4] + rng.normal(size=(400, 4))).argmax(axis=1)]
TEXTS = ["the cat sat", "a dog ran", "cat and cat", "dog dog barks", "the dog", "a cat", ""] * 6
ANIMALS = [3, 7, 3, 7, 7, 3, 3] * 6

WITHOUT = """
import sys
sys.modules["sklearn"] = None
import numpy as np, xsoftmax
X = np.eye(3)[[0, 1, 2] * 20]
made = xsoftmax.Classifier("softmax", optimizer="lbfgs").fit(X, [5, 6, 7] * 20)
assert (made.predict(np.eye(3)) == [5, 6, 7]).all()
try:
    made.fit(X, [5, 6] * 20)
except ValueError as refused:
    assert "accepted is 60" in str(refused)
else:
    raise AssertionError("accepted")
"""


def exact(**more):
    return xsoftmax.Classifier("softmax", optimizer="lbfgs", **more)


def assert_raises(error, what, call):
    try:
        call()
    except error as raised:
        assert what in str(raised), raised
    else:
        raise AssertionError(what)


def check_answers():
    """The optimum is that of another program; sparse rows have the same."""
    theirs = sklearn.linear_model.LogisticRegression(C=1 / 3, tol=1e-10, max_iter=10000).fit(X, y)
    ours = exact(ridge=3.0).fit(X, y)
    difference = np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max()
    assert difference < 2e-3, difference
    assert (ours.classes_ == theirs.classes_).all() and ours.report_["method"] == "softmax"
    sparse = exact(ridge=3.0).fit(scipy.sparse.csr_matrix(X), y)
    assert np.abs(sparse.predict_proba(scipy.sparse.csr_matrix(X)) - ours.predict_proba(X)).max() < 2e-3
    labels, likely = ours.top(X, 2)
    assert (labels[:, 0] == ours.predict(X)).all() and (likely[:, 0] >= likely[:, 1]).all()
    assert np.allclose(likely, -np.sort(-ours.predict_proba(X), axis=1)[:, :2])


def check_given():
    """Structs and calls take arrays of the right type, or say it, and as many arguments as they have, also a member called
    name."""
    xsm = xsoftmax.library()
    made = xsm.struct("tensor", name="a", shape=np.arange(3, dtype=np.uint64), data=X)
    assert (made.name, made.shape[2], made.data) == (b"a", 2, X.ctypes.data)
    rows, wide = scipy.sparse.csr_matrix(X[:9].astype(float)), (ctypes.c_double * 3)()
    made = xsm.struct("csr_rows", offsets=rows.indptr.astype(np.int64), index=rows.indices, values=rows.data)
    assert (made.dtype, made.offset_bits, made.index_bits) == (xsm.DTYPE_FLOAT64, 64, 32)
    assert [xsm.struct("dense_rows", values=of).dtype for of in (X, wide)] == [xsm.DTYPE_FLOAT32, xsm.DTYPE_FLOAT64]
    for wrong in (lambda: xsm.struct("dense_rows", values=X.astype(">f4")),
                  lambda: xsm.struct("dense_rows", values=X.astype(np.float16)),
                  lambda: xsm.struct("dense_rows", values=X, dtype=xsm.DTYPE_FLOAT64), lambda: xsm.struct("labels", offsets=X),
                  lambda: xsm.struct("labels", labels=np.zeros(4)), lambda: xsm.struct("tensor", data=X[:, ::2]),
                  lambda: xsm.struct("tensor", nam="a"), lambda: xsm.model_save(None, "my.model")):
        try:
            wrong()
        except TypeError as error:
            assert any(said in str(error) for said in ("accepted", "it has", "arguments")), error
        else:
            raise AssertionError("accepted")


def check_weights():
    """Rows of weight 0 are absent, whatever way of training is chosen."""
    weight = rng.integers(0, 3, 400)
    some = weight > 0
    whole = xsoftmax.Classifier().fit(X, y, weight).predict_proba(X)
    assert (whole == xsoftmax.Classifier().fit(X[some], y[some], weight[some]).predict_proba(X)).all()


def check_kept(folder):
    """Files and pickles answer to the bit."""
    path = os.path.join(folder, "kept")
    for rows, labels in ((X, y), (TEXTS, ANIMALS)):
        made = exact().fit(rows, labels)
        made.save(path)
        for kept in (xsoftmax.Classifier.load(path), pickle.loads(pickle.dumps(made))):
            assert (kept.predict_proba(rows) == made.predict_proba(rows)).all()
            assert (kept.predict(rows) == made.predict(rows)).all() and kept.classes_.dtype == made.classes_.dtype
    made = exact().fit(X, y)
    made.feature_names_in_ = np.array(list("abcdef"), object)  # as fit() does for a data frame
    made.save(path)
    assert (xsoftmax.Classifier.load(path).feature_names_in_ == made.feature_names_in_).all()


def check_steps():
    steps = xsoftmax.Classifier(eta=0.3)
    for first in range(0, 400, 50):
        steps.partial_fit(X[first:first + 50], y[first:first + 50], classes=["dog", "cat", "bee", "ant"])
    assert steps.score(X, y) > exact().fit(X, y).score(X, y) - 0.1, steps.score(X, y)
    for wrong, what in ((lambda: xsoftmax.Classifier().partial_fit(X, y), "first call"),
                        (lambda: steps.partial_fit(X, ["emu"] * 400), "did not name")):
        assert_raises(ValueError, what, wrong)


def check_refused(folder):
    """Wrong arguments are refused with what is accepted; paths may be those of pathlib, texts an array."""
    path = pathlib.Path(folder) / "made"
    made, texts = exact().fit(X, y), exact().fit(np.array(TEXTS), np.array(ANIMALS))
    texts.save(path)
    assert (xsoftmax.Classifier.load(path).predict(np.array(TEXTS, object)) == texts.predict(TEXTS)).all()
    made.model_.save(path)
    for error, what, wrong in (
            (ValueError, "accepted is 1", lambda: made.top(X, 0)), (ValueError, "accepted is 1", lambda: made.top(X, -1)),
            (ValueError, "accepted is 42,", lambda: exact().fit(TEXTS, ANIMALS + [3])),
            (ValueError, "accepted is 42,", lambda: exact().fit(TEXTS, ANIMALS[1:])),
            (ValueError, "(42, 2); accepted is 42,", lambda: exact().fit(TEXTS, np.eye(2, dtype=int)[[0, 1] * 21])),
            (ValueError, "row 1 of X is None; accepted is a list of texts", lambda: texts.predict(["cat", None])),
            (ValueError, "X is 'cat'; accepted is a list of texts", lambda: texts.predict("cat")),
            (ValueError, "OneHotEncoder", lambda: exact().fit(np.array([TEXTS, TEXTS]).T, ANIMALS)),
            (ValueError, "are texts", lambda: exact().fit(TEXTS, ANIMALS, np.ones(42))),
            (ValueError, "are texts", lambda: exact().partial_fit(TEXTS, ANIMALS, [3, 7])),
            (ValueError, "accepts None", lambda: exact(transforms="unit").partial_fit(X, y, np.unique(y))),
            (ValueError, "no Classifier", lambda: xsoftmax.Classifier.load(path)),
            (TypeError, "accepted in files", lambda: exact().fit(X, y.astype("S")).save(path)),
            (TypeError, "accepted in files", lambda: exact().fit(X, np.array(ANIMALS * 10)[:400].astype("M8[D]")).save(path))):
        assert_raises(error, what, wrong)


def check_callbacks(folder):
    """What a callback raises, the call raises; a callback that stops is no fault of the library's."""
    xsm, file = xsoftmax.library(), pathlib.Path(folder, "train.txt")
    file.write_text("__label__a x y\n__label__b y z\n" * 50)

    def stop_by(progress):
        rows = xsm.make("dataset_read", None, file, None, None)
        xsoftmax.train_rows(rows, method="softmax", run=xsm.struct("trainer_options", epochs=1, eta=1, progress=progress))

    def raises(*_):
        raise KeyError("mine")

    assert_raises(KeyError, "mine", lambda: stop_by(raises))
    assert_raises(xsoftmax.Cancelled, "stopped by the callback", lambda: stop_by(lambda *_: 1))
    model = xsoftmax.train(file)
    assert xsoftmax.Model(model.model).labels() == model.labels() == ["a", "b"]


def check_texts():
    made = xsoftmax.Classifier("softmax").fit(TEXTS, ANIMALS)
    assert (made.predict(["one cat", "this dog\nand that dog"]) == [3, 7]).all()
    assert len(made.predict(["", "", "cat"])) == 3
    labelled = [row + " __label__7 __label__" for row in TEXTS]  # words like others
    made = xsoftmax.Classifier("softmax").fit(labelled, ANIMALS)
    assert (made.predict(labelled) == ANIMALS).all() and list(made.classes_) == [3, 7]


def check_float32():
    """Numbers that float32 does not keep apart are told of, others not."""
    for rows, told in ((1.7e9 + np.arange(60)[:, None], 1), (1.7e9 + 1e6 * np.arange(60)[:, None], 0), (X[:60], 0)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            xsoftmax.Classifier("class-means").fit(rows, [0, 1] * 30)
        assert sum("float32 keeps" in str(each.message) for each in said) == told, said


def check_predict(folder):
    """A model of text answers a list as it answers the file of these lines; another refuses it."""
    file, asked = pathlib.Path(folder, "text.txt"), pathlib.Path(folder, "asked.txt")
    file.write_text("".join(f"__label__{k} {text}\n" for k, text in zip(ANIMALS, TEXTS)))
    new = ["", "one cat", "this dog\nand\u00a0that dog", "zebra", "cat " * 30000, ""]
    asked.write_text("".join(text.replace("\n", " ") + "\n" for text in new))
    for named in ({}, {"method": "softmax", "transform": "unit"}):
        model = xsoftmax.train(file, **named)
        answers = model.predict(new, top=2, probabilities=True)
        assert answers == model.predict(asked, top=2, probabilities=True) == model.predict(str(asked), 2, True)
        assert [row[0][0] for row in answers[1:3]] == ["3", "7"] and len(model.predict([""])) == 1
    table = exact().fit(X, y).model_
    assert_raises(ValueError, "not trained on text; accepted is", lambda: table.predict(["a"]))
    assert_raises(ValueError, "row 1 is None; accepted is a text each row", lambda: model.predict(["a", None]))
    assert_raises(xsoftmax.Error, "no rows", lambda: model.predict([]))
    assert list(model.predict(text for text in new)) == model.predict(new)
    classifier = xsoftmax.Classifier().fit(TEXTS, ANIMALS)
    words = classifier.model_._map().features
    assert_raises(ValueError, "was trained on text; accepted is", lambda: classifier.predict(np.ones((2, words))))
    assert_raises(ValueError, "X has masked values", lambda: exact().fit(np.ma.array(X, mask=X > 1), y))


with tempfile.TemporaryDirectory() as scratch:
    checks = 0
    for estimator, check in (*check_estimator(exact(), generate_only=True),
                             *check_estimator(xsoftmax.Classifier(), generate_only=True)):
        if estimator.method is None and getattr(check, "keywords", None) == {"kind": "zeros"}:
            continue  # it puts the rows in another order, which changes what steps make of them: check_weights()
        try:
            check(estimator)
            checks += 1
        except unittest.SkipTest as skipped:  # for lack of pandas
            print(skipped)
    check_answers()
    check_given()
    check_weights()
    check_kept(scratch)
    check_steps()
    check_texts()
    check_float32()
    check_predict(scratch)
    check_callbacks(scratch)
    check_refused(scratch)
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, env=dict(os.environ, PYTHONPATH=sys.path[0]))
print(f"{checks} checks of scikit-learn {sklearn.__version__}; answers, files, steps, texts")
