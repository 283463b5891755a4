# Figure 3 of Yen et al. 2018 in shape: the collapsed skip-gram objective by epoch and by time.
name = "ldgs_words"
width = 1000; height = 460
load scripts."/style.inc"
set multiplot layout 1,2 margins 0.08, 0.98, 0.22, 0.93 spacing 0.08, 0.13
do for [s=1:2] {
    part = "-".word("epochs seconds", s)
    if (there(part)) {
        set title (s == 1 ? "by epoch" : "by time")
        set xlabel (s == 1 ? "epoch" : "processor seconds of training")
        set ylabel (s == 1 ? "collapsed objective" : "")
        if (s == 2) { set logscale x }
        stats file(part) using 1 skip 1 nooutput
        set key at screen 0.5, 0.02 center bottom horizontal maxrows 2
        plot for [i=2:STATS_columns] file(part) using 1:i with linespoints linetype i-1 title columnheader(i)
        unset key
    }
}
unset multiplot
