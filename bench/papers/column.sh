#!/bin/sh
# The name of a column of a CSV file, whose names may be quoted, or without a number how many columns there are.
#
#   sh column.sh FILE [NUMBER]
head -n 1 "$1" | awk -v wanted="${2:-0}" '{
    line = $0
    count = 0
    while (line != "") {
        count++
        if (substr(line, 1, 1) == "\"") {
            line = substr(line, 2)
            end = index(line, "\"")
            name = substr(line, 1, end - 1)
            line = substr(line, end + 2)
        } else {
            end = index(line, ",")
            name = end ? substr(line, 1, end - 1) : line
            line = end ? substr(line, end + 1) : ""
        }
        if (count == wanted) {
            print name
        }
    }
    if (!wanted) {
        print count
    }
}'
