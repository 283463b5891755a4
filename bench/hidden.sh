#!/bin/sh
# Compares linear and embedding models of this library, and fastText, on the same rows in one run; see bench/compare/hidden.py.
#
#   sh bench/hidden.sh [--json] [--threads T] [--sets NAME,...] [--only NAME,...] [--held]
#   sh bench/hidden.sh --published      the default command, beside the figures of papers on sequential recommendation
#   sh bench/hidden.sh --sessions FOLDER...   the next click of sessions, of files as the authors of GCE-GNN publish them
#
# Needs kg-fb15k237 and s3rec-beauty, or s3rec-beauty and s3rec-toys, in $XSM_DATA or ../shared/data. On a fresh Debian it first
# installs missing packages, including fastText. --held evaluates on the held-back rows that the settings were chosen on, not on the test rows.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

want fasttext:fasttext
need python3-numpy:numpy.py
build_program xsoftmax

exec "$python" "$root/bench/compare/hidden.py" --program "$program" "$@"
