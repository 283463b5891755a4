# How far above the least objective the methods end, by their initial rate.
name = "umax_optimum"
width = 900; height = 390
load scripts."/style.inc"
columns = 2; rows = 1; below = 45; keyrows = 1
sets = "bibtex delicious"
titles = "Bibtex Delicious"
set multiplot
set logscale xy
set format x "%g"
set format y "%g"
set yrange [0.1:200]
do for [s=1:words(sets)] {
    if (there("-".word(sets, s))) {
        f = file("-".word(sets, s))
        col = (s - 1) % columns; row = (s - 1) / columns
        @PANEL
        set title word(titles, s)
        set xlabel (row == rows - 1 ? "eta0 (rate eta0/(1 + epochs passed))" : "")
        set ylabel (col == 0 ? "objective above the optimum, %" : "")
        plot for [i=2:columns_of(f)] f using 1:(100 * column(i)) skip 1 with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f)] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6 title column_name(f,i)
unset multiplot
