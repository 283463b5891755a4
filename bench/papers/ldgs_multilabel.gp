# Figure 2 of Yen et al. 2018: accuracy on the training rows by epoch and by time.
name = "ldgs_multilabel"
width = 900; height = 400
load scripts."/style.inc"
columns = 2; below = 62; keyrows = 2
parts = "epochs seconds"
titles = "'by epoch' 'by time'"
xlabels = "'epoch' 'processor seconds of training'"
set multiplot
set ylabel "right on the training rows, %"
set format x "%g"

do for [s=1:2] {
    if (there("-".word(parts, s))) {
        f = file("-".word(parts, s))
        col = s - 1
        @PANEL
        set title word(titles, s)
        set xlabel word(xlabels, s)
        set xtics autofreq
        if (s == 1) { set xtics 1 }
        if (s == 2) { set logscale x }
        plot for [i=2:columns_of(f)] f using 1:i skip 1 with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6
        set ylabel ""
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f)] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6 title column_name(f,i)
unset multiplot
