# Figure 2 of Yen et al. 2018: accuracy on the training rows by epoch and by time.
name = "ldgs_multilabel"
width = 1000; height = 460
load scripts."/style.inc"
set multiplot layout 1,2 margins 0.08, 0.98, 0.22, 0.93 spacing 0.08, 0.1
set key at screen 0.5, 0.02 center bottom horizontal maxrows 1 samplen 2 width -2
set ylabel "right on the training rows, %"
part = "-epochs"
set xlabel "epoch"
stats file(part) using 1 skip 1 nooutput
plot for [i=2:STATS_columns] file(part) using 1:i with linespoints linetype i-1 title columnheader(i)
unset key
part = "-seconds"
set xlabel "seconds of training"
set ylabel ""
set logscale x
set format x "%g"
plot for [i=2:STATS_columns] file(part) using 1:i with linespoints linetype i-1 notitle
unset multiplot
