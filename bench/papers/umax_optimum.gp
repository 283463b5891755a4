# How far above the least objective the methods end, by their initial rate.
name = "umax_optimum"
width = 1000; height = 430
load scripts."/style.inc"
set multiplot layout 1,2 margins 0.08, 0.98, 0.28, 0.91 spacing 0.08, 0
set logscale xy
set format x "%g"
set format y "%g"
set yrange [0.1:200]
set xlabel "eta0 (rate eta0/(1 + epochs passed))"
set key at screen 0.5, 0.02 center bottom horizontal maxrows 1
sets = "bibtex delicious"
titles = "Bibtex Delicious"
do for [s=1:2] {
    part = "-".word(sets, s)
    if (there(part)) {
        set title word(titles, s)
        set ylabel (s == 1 ? "objective above the optimum, %" : "")
        stats file(part) using 1 skip 1 nooutput
        plot for [i=2:STATS_columns] file(part) using 1:(100 * column(i)) with linespoints linetype i-1 title columnheader(i)
        unset key
    }
}
unset multiplot
