# In the manner of Figure 3 of Titsias 2016: log likelihood of an example, or its bound, on the way to the maximum.
name = "ove_table2"
width = 900; height = 380
load scripts."/style.inc"
columns = 3; below = 40
sets = "mnist 20news bibtex"
titles = "MNIST 20NEWS BIBTEX"
ends = "60 100 60"
lows = "-1.5 -2.5 -6"
set multiplot
set xlabel "passes over the rows"
do for [s=1:3] {
    if (there("-".word(sets, s))) {
        f = file("-".word(sets, s))
        col = s - 1
        @PANEL
        set title word(titles, s)
        set ylabel (s == 1 ? "bound of an example" : "")
        set xrange [0:real(word(ends, s))]
        set yrange [real(word(lows, s)):0]
        plot for [i=2:4] f using 1:i skip 1 with lines linecolor rgb colour(column_name(f,i))
    }
}
@LEGEND
plot NaN notitle, for [i=2:4] keyentry with lines linecolor rgb colour(column_name(f,i)) title column_name(f,i)
unset multiplot
