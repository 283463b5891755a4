# Appendix A.2 of Bamler and Mandt 2020: the best accuracy on rows held out by learning rate.
name = "adversarial_eurlex"
width = 900; height = 640
load scripts."/style.inc"
columns = 2; rows = 2; below = 45; keyrows = 1
sets = "made bibtex delicious corel5k"
titles = "'EURLex-4K in shape' Bibtex Delicious Corel5k"
set multiplot
set logscale x
set format x "%g"
set yrange [0:*]
do for [s=1:words(sets)] {
    if (there("-".word(sets, s))) {
        f = file("-".word(sets, s))
        col = (s - 1) % columns; row = (s - 1) / columns
        @PANEL
        set title word(titles, s)
        set xlabel (row == rows - 1 ? "learning rate" : "")
        set ylabel (col == 0 ? "best accuracy on rows held out" : "")
        plot for [i=2:columns_of(f)] f using 1:i skip 1 with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f)] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6 title column_name(f,i)
unset multiplot
