# Figure 1 of Yen et al. 2018: errors on the training rows by epoch and by time.
name = "ldgs_multiclass"
width = 900; height = 420
load scripts."/style.inc"
columns = 2; below = 82; keyrows = 3
parts = "epochs seconds"
titles = "'by epoch' 'by time'"
xlabels = "'epoch' 'processor seconds of training'"
# None wrong is drawn at the floor, below one row of 42,000.
floor_at = 1e-3
# The lines of a column that have a number, so that its points are joined.
points(f, i) = sprintf("< awk -F, 'NR > 1 && $%d != \"\" { print $1 \",\" $%d }' '%s'", i, i, f)
set multiplot
set ylabel "wrong on the training rows, %"
set logscale y
set yrange [0.7*floor_at:2]
set ytics ("none" floor_at, 0.01, 0.1, 1)
set format x "%g"

do for [s=1:2] {
    if (there("-".word(parts, s))) {
        f = file("-".word(parts, s))
        col = s - 1
        @PANEL
        set title word(titles, s)
        set xlabel word(xlabels, s)
        if (s == 1) { set xtics 1 }
        if (s == 2) { set xtics autofreq; set logscale x }
        plot for [i=2:columns_of(f)] points(f, i) using 1:($2 > 100 - floor_at ? floor_at : 100 - $2) with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6
        set ylabel ""
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f)] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6 title column_name(f,i)
unset multiplot
