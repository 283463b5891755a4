# Figures 2 and 3 of Fagan and Iyengar 2018: log-loss on the training rows by initial learning rate, and by epoch for the
# two double sums.
name = "umax_rates"
width = 1000; height = 820
load scripts."/style.inc"
set multiplot layout 2,2 margins 0.08, 0.98, 0.19, 0.955 spacing 0.08, 0.13
sets = "bibtex delicious"
titles = "Bibtex Delicious"
set xlabel "initial learning rate eta0"
set logscale xy
set yrange [*:1000]
set format x "10^{%L}"
set key at screen 0.5, 0.07 center bottom horizontal maxrows 1
do for [s=1:2] {
    part = "-".word(sets, s)
    if (there(part)) {
        set title word(titles, s)
        set ylabel (s == 1 ? "train log-loss after 50 epochs" : "")
        stats file(part) using 1 skip 1 nooutput
        plot for [i=2:STATS_columns] file(part) using 1:i with linespoints linetype i-1 title columnheader(i)
        unset key
    }
}
unset logscale x
set yrange [*:*]
set format x "%g"
set xlabel "epoch"
set key at screen 0.5, 0.005 center bottom horizontal maxrows 1
do for [s=1:2] {
    part = "-".word(sets, s)."-epochs"
    if (there(part)) {
        set title word(titles, s).": the double sums"
        set ylabel (s == 1 ? "train log-loss" : "")
        plot for [i=0:2] file(part) using 1:(column(sprintf("U-max %s", word("0.01 0.1 1", i+1)))) with linespoints \
                 linetype i+1 title sprintf("U-max, eta0 %s", word("0.01 0.1 1", i+1)), \
             for [i=0:2] file(part) using 1:(column(sprintf("Raman %s", word("0.001 0.01 0.1", i+1)))) with linespoints \
                 linetype i+1 dashtype 2 title sprintf("Raman, eta0 %s", word("0.001 0.01 0.1", i+1))
        unset key
    }
}
unset multiplot
