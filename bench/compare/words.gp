# The loss of a pair by epoch and by processor time, of both programs; see compare_words.sh.
name = "compare_words"
width = 1000; height = 440
load scripts."/style.inc"
set multiplot layout 1,2 margins 0.08, 0.98, 0.22, 0.93 spacing 0.08, 0.13
do for [s=1:2] {
    set title (s == 1 ? "by epoch" : "by processor time")
    set xlabel (s == 1 ? "epoch" : "seconds of processors")
    set ylabel (s == 1 ? "mean loss of a pair in the epoch" : "")
    if (s == 2) { set logscale x } else { set xtics 1 }
    set autoscale xfix
    set offsets graph 0.04, graph 0.04, graph 0.04, graph 0.04
    set key at screen 0.5, 0.02 center bottom horizontal maxrows 1
    plot file("") using (s == 1 ? $1 : $3):2 skip 1 with linespoints linetype 1 title "xsoftmax", \
         file("") using (s == 1 ? $1 : $5):4 skip 1 with linespoints linetype 2 title "fastText"
    unset key
    set xtics autofreq
}
unset multiplot
