# Milliseconds a step by ranks, as simulated, and dotted where ranks would share one process's work without waiting.
name = "scaling"
width = 700; height = 400
load scripts."/style.inc"
set logscale xy
set xlabel "ranks"
set ylabel "ms a step of 256 rows"
set xrange [56:1200]
set xtics (64, 128, 256, 512, 1024)
set key bottom left Left reverse
classes = "10000000 100000000"
works = "evaluate softmax"
plot for [w=1:2] for [k=1:2] file("-".word(works, w)."-".word(classes, k)) using 1:2 skip 1 with linespoints \
        linetype w pointtype (k == 1 ? 7 : 5) title word(works, w).", ".(k == 1 ? "10" : "100")." million classes", \
    for [w=1:2] for [k=1:2] file("-".word(works, w)."-".word(classes, k)) using 1:3 skip 1 with lines \
        linetype w dashtype 3 notitle, \
    NaN with lines linecolor rgb black dashtype 3 title "without waiting"
