# Milliseconds a step by ranks, as simulated, dashed with another algorithm, and dotted without waiting for the network: for
# given numbers of classes, and with as many classes a rank.
name = "scaling"
width = 900; height = 480
load scripts."/style.inc"
rows = 1; columns = 2; below = 96; keyrows = 4
colours = "#0072b2 #d55e00 #009e73"
works = "evaluate softmax shared"
titles = "'evaluate, 256 rows' 'softmax, 256 rows' 'sampled-softmax, shared draws, 128 rows'"
of(i) = word(colours, i)
set multiplot
set logscale xy
set xlabel "ranks"
set ylabel "ms a step"
set xrange [56:1200]
set yrange [0.1:5000]
set xtics (64, 128, 256, 512, 1024)
row = 0; col = 0
@PANEL
set title "10 and 100 million classes"
classes = "10000000 100000000"
plot for [w=1:3] for [k=1:2] file("-".word(works, w)."-".word(classes, k)) using 1:2 skip 1 with linespoints \
        linecolor rgb of(w) pointtype (k == 1 ? 7 : 5) pointsize 0.6, \
    for [w=1:3] for [k=1:2] file("-".word(works, w)."-".word(classes, k)) using 1:4 skip 1 with lines \
        linecolor rgb of(w) dashtype 2, \
    for [w=1:3] for [k=1:2] file("-".word(works, w)."-".word(classes, k)) using 1:3 skip 1 with lines \
        linecolor rgb of(w) dashtype 3
col = 1
@PANEL
set title "97,656 classes a rank"
unset ylabel
plot for [w=1:3] file("-".word(works, w)."-weak") using 1:2 skip 1 with linespoints linecolor rgb of(w) pointtype 4 \
        pointsize 0.6, \
    for [w=1:3] file("-".word(works, w)."-weak") using 1:4 skip 1 with lines linecolor rgb of(w) dashtype 2, \
    for [w=1:3] file("-".word(works, w)."-weak") using 1:3 skip 1 with lines linecolor rgb of(w) dashtype 3
@LEGEND
plot for [w=1:3] NaN with lines linecolor rgb of(w) title word(titles, w), \
    NaN with points linecolor rgb black pointtype 7 pointsize 0.6 title "10 million classes", \
    NaN with points linecolor rgb black pointtype 5 pointsize 0.6 title "100 million", \
    NaN with points linecolor rgb black pointtype 4 pointsize 0.6 title "97,656 a rank", \
    NaN with lines linecolor rgb black dashtype 2 title "gathers by Bruck's algorithm", \
    NaN with lines linecolor rgb black dashtype 3 title "without waiting"
unset multiplot
