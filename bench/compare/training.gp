# Log-loss on test rows against processor time, of both programs; see compare_torch.sh.
name = "compare_torch"
width = 1000; height = 440
load scripts."/style.inc"
columns = words(sets); rows = 1; below = 40
set multiplot
set format x "%g"
set logscale x
do for [s=1:words(sets)] {
    col = s - 1
    @PANEL
    set title word(sets, s) noenhanced
    set xlabel "seconds of one processor"
    set ylabel (col == 0 ? "log-loss on test rows" : "")
    set offsets graph 0.05, graph 0.05, graph 0.05, graph 0.05
    plot for [m=1:2] for [p=1:2] file("") using (strcol(1) eq word(sets, s) && strcol(2) eq word("softmax sampled-softmax", m) && strcol(3) eq word("xsoftmax PyTorch", p) ? $6 : NaN):7 skip 1 \
        with linespoints linetype p dashtype m pointtype (m == 1 ? 7 : 6) pointsize 0.8
}
@LEGEND
plot NaN notitle, for [m=1:2] for [p=1:2] keyentry with linespoints linetype p dashtype m pointtype (m == 1 ? 7 : 6) pointsize 0.8 title word("xsoftmax PyTorch", p).", ".word("softmax sampled-softmax", m)
unset multiplot
