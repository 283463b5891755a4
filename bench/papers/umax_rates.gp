# Figure 3 of Fagan and Iyengar 2018: log-loss on the training rows by initial learning rate.
name = "umax_rates"
width = 900; height = 430
load scripts."/style.inc"
columns = 2; rows = 1; below = 62; keyrows = 2
sets = "bibtex delicious"
titles = "Bibtex Delicious"
set multiplot
set logscale xy
set yrange [*:100]
set format x "10^{%L}"
set format y "%g"
set ytics add (0.02, 0.05, 0.2, 0.5, 2, 5, 20, 50)
do for [s=1:words(sets)] {
    if (there("-".word(sets, s))) {
        f = file("-".word(sets, s))
        col = (s - 1) % columns; row = (s - 1) / columns
        @PANEL
        set title word(titles, s)
        set xlabel (row == rows - 1 ? "initial learning rate eta0" : "")
        set ylabel (col == 0 ? "log-loss after 50 epochs, training rows" : "")
        plot for [i=2:columns_of(f)] f using 1:i skip 1 with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f)] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6 title column_name(f,i)
unset multiplot
