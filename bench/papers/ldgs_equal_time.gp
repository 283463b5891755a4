# Figure 1 of Yen et al. 2018: accuracy against time at 672 thousand classes, on training rows and on new images.
name = "ldgs_equal_time"
width = 900; height = 430
load scripts."/style.inc"
columns = 2; below = 82; keyrows = 3
parts = "train new"
titles = "'training rows' 'new images of the same identities'"
xlabels = "'processor seconds of training' 'processor seconds of training'"
set multiplot
set ylabel "right, %"
set format x "%g"
set yrange [0:*]
do for [s=1:2] {
    if (there("-".word(parts, s))) {
        f = file("-".word(parts, s))
        col = s - 1
        @PANEL
        set title word(titles, s)
        set xlabel word(xlabels, s)
        set logscale x
        plot for [i=2:columns_of(f)] f using 1:i skip 1 with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6
        set ylabel ""
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f)] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6 title column_name(f,i)
unset multiplot
