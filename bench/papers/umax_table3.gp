# Figure 1 of Fagan and Iyengar 2018: log-loss on the training rows by epoch.
name = "umax_table3"
width = 900; height = 430
load scripts."/style.inc"
columns = 3; below = 62; keyrows = 2
sets = "mnist bibtex delicious"
titles = "MNIST Bibtex Delicious"
# Without `importance`, which is not in the paper, and the variants with five classes a step but Implicit's.
left_out(s) = has(s, "mportance") || (has(s, "m=5") && !has(s, "mplicit"))
array shown[20]
count = 0
set multiplot
set logscale y
set format y "%g"
set ytics add (0.02, 0.05, 0.2, 0.5, 2, 5, 20, 50)
set xlabel "epoch"
do for [s=1:3] {
    if (there("-".word(sets, s))) {
        f = file("-".word(sets, s))
        if (count == 0) {
            do for [i=2:columns_of(f)] {
                if (!left_out(column_name(f,i))) { count = count + 1; shown[count] = i }
            }
        }
        col = s - 1
        @PANEL
        set title word(titles, s)
        set ylabel (s == 1 ? "log-loss, training rows" : "")
        plot for [j=1:count] f using 1:shown[j] skip 1 with linespoints \
             linecolor rgb colour(column_name(f,shown[j])) dashtype dash(column_name(f,shown[j])) \
             pointtype mark(column_name(f,shown[j])) pointsize 0.6
    }
}
@LEGEND
plot NaN notitle, for [j=1:count] keyentry with linespoints \
     linecolor rgb colour(column_name(f,shown[j])) dashtype dash(column_name(f,shown[j])) \
     pointtype mark(column_name(f,shown[j])) pointsize 0.6 title column_name(f,shown[j])
unset multiplot
