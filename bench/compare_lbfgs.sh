#!/bin/sh
# The optimum of the softmax with an L2 penalty (ridge): the library's lbfgs and scikit-learn's LogisticRegression, on the
# same rows with the same threads in one run. Both objectives are computed from the weights, in double, by NumPy.
#
#   sh bench/compare_lbfgs.sh [DATA...] [--json] [--threads T] [--ridge MU] [--repeats N]
#
# DATA as for bench/compare.sh; the default is mnist, bibtex and delicious. On a fresh Debian it prints what it installs.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need python3-numpy:numpy.py python3-scipy:scipy.py python3-sklearn:sklearn.py
build_program xsoftmax

exec "$python" "$root/bench/compare/lbfgs.py" --program "$program" "$@"
