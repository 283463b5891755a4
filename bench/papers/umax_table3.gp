# Figure 1 of Fagan and Iyengar 2018: log-loss on the training rows by epoch.
name = "umax_table3"
width = 1200; height = 440
load scripts."/style.inc"
set multiplot layout 1,3 margins 0.065, 0.985, 0.3, 0.91 spacing 0.05, 0
set xlabel "epoch"
set logscale y
set key at screen 0.5, 0.015 center bottom horizontal maxrows 2 width 1
sets = "mnist bibtex delicious"
titles = "MNIST Bibtex Delicious"
do for [s=1:3] {
    part = "-".word(sets, s)
    if (there(part)) {
        set title word(titles, s)
        set ylabel (s == 1 ? "train log-loss" : "")
        stats file(part) using 1 skip 1 nooutput
        plot for [i=2:STATS_columns] file(part) using 1:i with linespoints linetype i-1 title columnheader(i)
        unset key
    }
}
unset multiplot
