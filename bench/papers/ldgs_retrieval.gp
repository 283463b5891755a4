# Section 4 of Yen et al. 2018: accuracy against time with fixed lists and with lists that a bound on Z ends.
name = "ldgs_retrieval"
width = 900; height = 400
load scripts."/style.inc"
columns = 2; below = 82; keyrows = 3
sets = "kg-fb15k237 debian-maintainers"
titles = "'FB15k-237, 11,183 classes' 'Debian, 2,249 classes'"
set multiplot
set logscale x
set format x "%g"
set xrange [*:*] noextend
set offsets graph 0.03, graph 0.03, graph 0.03, graph 0.03
set xtics (0.5, 1, 2, 4, 8)
do for [s=1:words(sets)] {
    if (there("-".word(sets, s))) {
        f = file("-".word(sets, s))
        col = s - 1
        @PANEL
        set title word(titles, s)
        set xlabel "training time, ".column_name(f,1)
        set ylabel (col == 0 ? "right of new rows, %" : "")
        plot for [i=2:columns_of(f)] f using 1:i skip 1 with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f)] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6 title column_name(f,i)
unset multiplot
