# Figure 1 of Yen et al. 2018: accuracy against time at 672 thousand classes, on training rows and on new images.
name = "ldgs_equal_time"
width = 1000; height = 520
load scripts."/style.inc"
set multiplot layout 1,2 margins 0.07, 0.985, 0.32, 0.92 spacing 0.08, 0.1
set key at screen 0.5, 0.01 center bottom horizontal maxrows 3 samplen 2
set xlabel "seconds of training"
set ylabel "right, %"
set logscale x
set format x "%g"
set yrange [0:*]
do for [s=1:2] {
    part = "-".word("train new", s)
    if (there(part)) {
        set title (s == 1 ? "training rows" : "new images of the same identities")
        stats file(part) using 1 skip 1 nooutput
        plot for [i=2:STATS_columns] file(part) using 1:i with linespoints linetype i-1 title columnheader(i)
        unset key
    }
}
unset multiplot
