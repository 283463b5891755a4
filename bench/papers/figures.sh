#!/bin/sh
# Runs the program behind run.sh, and plots its results.
#
#   sh figures.sh PROGRAM FOLDER [ARGUMENT...]     the arguments are the program's
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
program=$1
folder=$2
shift 2
mkdir -p "$folder" || exit 1

# Removes the results of an earlier run of the same figures.
for word in "$@"; do
    case $word in
    all) rm -f "$folder"/*.csv "$folder"/*.svg "$folder"/*.png ;;
    [a-z]*) rm -f "$folder/$word.csv" "$folder/$word"-*.csv "$folder/$word.svg" "$folder/$word.png" ;;
    esac
done
stamp=$folder/.stamp
: >"$stamp" || exit 1

"$program" --folder "$folder" "$@" || exit $?

# A figure that was skipped leaves no table.
status=0
for script in "$here"/*.gp; do
    name=${script##*/}
    name=${name%.gp}
    if [ ! -f "$folder/$name.csv" ] || [ -n "$(find "$stamp" -newer "$folder/$name.csv")" ]; then
        continue
    fi
    for kind in svg png; do
        gnuplot -e "folder = '$folder'; kind = '$kind'; scripts = '$here'" "$script" >&2 || {
            printf 'figures.sh: gnuplot could not draw %s.%s\n' "$name" "$kind" >&2
            status=1
        }
    done
    printf 'Tables, curves and plots: %s/%s*\n' "$folder" "$name" >&2
done
rm -f "$stamp"
exit $status
