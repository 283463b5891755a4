# Appendix A.2 of Bamler and Mandt 2020: the best accuracy on rows held out by learning rate.
name = "adversarial_eurlex"
width = 1000; height = 760
load scripts."/style.inc"
set multiplot layout 2,2 margins 0.08, 0.98, 0.14, 0.955 spacing 0.09, 0.13
sets = "made bibtex delicious corel5k"
titles = "'EURLex-4K in shape' Bibtex Delicious Corel5k"
set logscale x
set format x "%g"
set xlabel "learning rate"
set yrange [0:*]
set key at screen 0.5, 0.005 center bottom horizontal maxrows 1
do for [s=1:4] {
    part = "-".word(sets, s)
    if (there(part)) {
        set title word(titles, s)
        set ylabel (s % 2 == 1 ? "best accuracy on rows held out" : "")
        stats file(part) using 1 skip 1 nooutput
        plot for [i=2:STATS_columns] file(part) using 1:i with linespoints linetype i-1 title columnheader(i)
        unset key
    }
}
unset multiplot
