#!/usr/bin/python3
"""Golden values of the Wright omega function on the real line, from SciPy (scipy.special.wrightomega, the code of
Lawrence, Corless and Jeffrey). Run as: omega.py > omega_golden.h; with that file as
argument it is compared.

The arguments lie where the implementation changes its method, and all over [-745, 1e8].
"""
import numpy as np
from scipy.special import wrightomega

from golden import finish

edges = [0.0, 1.0, 4.0, -36.8, -1.0, 2.0, np.e + 1, -18.3, 38.0, -700.0, -708.3, -708.4, -744.0]
near = [float(np.nextafter(t, side)) for t in edges for side in (-np.inf, np.inf)]
grid = list(np.linspace(-45, 45, 121)) + list(-np.logspace(-8, np.log10(744), 40)) + list(np.logspace(-8, 8, 60))
points = sorted(set(float(t) for t in edges + near + grid))


def lines():
    yield "/* Written by omega.py: do not edit. */"
    yield "static const double omega_golden[][2] = {"
    for t in points:
        yield "    {%s, %s}," % (t.hex(), float(wrightomega(t)).hex())
    yield "};"


finish(lines(), relative=1e-14)
