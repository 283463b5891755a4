# Figure 2 of Titsias 2016: exact and estimated probabilities of the values, and the error over the steps.
name = "ove_nonparametric"
width = 900; height = 330
load scripts."/style.inc"
set multiplot layout 1,3 margins 0.06, 0.975, 0.17, 0.9 spacing 0.07, 0
unset key
set xlabel "value, by exact probability"
set ylabel "probability, 10^{-4}"
set xtics 2500
set yrange [0:*]
set format y "%g"
stats file("-values") using 2 skip 1 nooutput
set yrange [0:1.15e4 * STATS_max]
set title "(a) exact"
plot file("-values") using 1:(1e4 * $2) with lines linecolor rgb black linewidth 2 notitle
set ylabel ""
set title "(b) one-vs-each, doubly stochastic"
plot file("-values") using 1:(1e4 * $3) with points linecolor rgb green pointtype 7 pointsize 0.25 notitle
set title "(c) error"
set format y "%g"
set yrange [0:*]
set xlabel "step"
set xtics 50000
set format x "%.0s%c"
set ylabel "sum of absolute differences"
plot file("-error") using 1:2 with lines linecolor rgb green notitle
unset multiplot
