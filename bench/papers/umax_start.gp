# Figure 2 of Fagan and Iyengar 2018: log-loss on the training rows by initial learning rate, for both double sums and both
# starts of u, with the least and the largest of the seeds.
name = "umax_start"
width = 900; height = 680
load scripts."/style.inc"
columns = 2; rows = 2; below = 45
sets = "bibtex delicious"
titles = "Bibtex Delicious"
# Columns are methods from 0, then methods from log K, each followed by the least and the largest of its seeds.
# U-max is plain SGD until it raises u: the marks of the latter go round those of the former.
special(s) = s[1:7] eq "vanilla" ? 6 : s[1:10] eq "Raman from" ? 8 : mark(s)
size(s) = dash(s) == 2 ? 1.3 : 0.6
plain(s) = s[1:strstrt(s, " from") - 1]
set multiplot
set logscale xy
set format x "10^{%L}"
set format y "%g"
set ytics add (0.02, 0.05, 0.2, 0.5, 2, 5, 20, 50)
do for [s=1:2] {
    if (there("-".word(sets, s))) {
        f = file("-".word(sets, s))
        half = (columns_of(f) - 1) / 2
        do for [start=0:1] {
            row = s - 1; col = start
            @PANEL
            set yrange [(s == 1 ? 0.2 : 2):30]
            set title word(titles, s).", u from ".(start == 0 ? "0" : "log K")
            set ylabel (start == 0 ? "log-loss after 50 epochs, training rows" : "")
            set xlabel (s == 2 ? "initial learning rate eta0" : "")
            plot for [i=2+start*half:1+half+start*half:3] f using 1:i:i+1:i+2 skip 1 with yerrorbars \
                     linecolor rgb colour(column_name(f,i)) pointtype 0, \
                 for [i=2+start*half:1+half+start*half:3] f using 1:i skip 1 with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype special(column_name(f,i)) pointsize size(column_name(f,i))
        }
    }
}
@LEGEND
plot NaN notitle, for [i=2:1+half:3] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype special(column_name(f,i)) pointsize size(column_name(f,i)) title plain(column_name(f,i))
unset multiplot
