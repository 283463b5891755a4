#!/usr/bin/env python3
"""A host in Python, with the standard library alone: trains, evaluates, predicts, saves and loads.

    ctypes_host.py LIBRARY XSOFTMAX-ABI.JSON [DATA]

LIBRARY is libxsoftmax.so; xsoftmax-abi.json is installed with it and describes every struct, constant and function. DATA
is a file in any format that the library reads; without it the rows are made up.
"""
import ctypes
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "python"))
from xsoftmax import SCALARS, Error, Library  # noqa: E402, F401


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
                         progress=progress)
    with xsm.make("estimator_new", None, "ove") as estimator, xsm.make("optimizer_new", None, "sgd") as optimizer:
        with xsm.make("trainer_new", None, model, rows, estimator, optimizer, options) as trainer:
            try:
                xsm.trainer_run(trainer)
            except Error:
                if raised:
                    raise raised[0]
                raise


def evaluate(xsm, model, rows):
    precision = (ctypes.c_double * 5)()
    metrics = xsm.struct("metrics", top=5, precision=precision)
    xsm.evaluate(None, model, rows, None, metrics)
    return metrics.log_loss, 1 - metrics.error, list(precision)


def predict(xsm, model, rows, first, count):
    """The five best classes of some rows, with probabilities."""
    batch = xsm.struct("batch")
    xsm.batch_set_range(batch, rows, first, count)
    options = xsm.struct("predictor_options", top=5)
    with xsm.make("predictor_new", model, options) as predictor:
        info = xsm.struct("predictor_info")
        xsm.predictor_get_info(predictor, info)
        top = info.top
        classes, probabilities = (ctypes.c_uint32 * (count * top))(), (ctypes.c_double * (count * top))()
        xsm.predictor_run(predictor, xsm.struct("prediction", batch=batch, classes=classes,
                                                             probabilities=probabilities))
    return [list(zip(classes[i * top:(i + 1) * top], probabilities[i * top:(i + 1) * top])) for i in range(count)]


def main():
    xsm = Library(sys.argv[1], sys.argv[2])
    print(f"libxsoftmax {xsm.version_string().decode()}")
    with xsm.make("dataset_read", None, sys.argv[3], None, None) if sys.argv[3:] else made_up(xsm, 20, 8, 2000) as rows:
        info = xsm.struct("dataset_info")
        xsm.dataset_get_info(rows, info)
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
                xsm.model_save(model, path, None)
                with xsm.make("model_load", None, path, None, None) as loaded:
                    same = predict(xsm, loaded, rows, 0, len(best)) == best
                print("saved and loaded: " + ("the same predictions" if same else "OTHER predictions"))
    return 0 if same else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Error as error:
        sys.exit(f"ctypes_host: {error}")
