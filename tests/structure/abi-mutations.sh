#!/bin/sh
# Do the gates of the ABI see? Breaks the interface in many ways, each in a copy: see abi_mutations.py.
exec python3 "$(dirname "$0")/abi_mutations.py" "$@"
