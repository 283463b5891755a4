# Log-loss on test rows against training time, for the page which_estimator.md.
name = "estimators_time"
width = 900; height = 720
load scripts."/style.inc"
columns = 3; rows = 2; below = 62; keyrows = 2
sets = "20news bibtex delicious kg-fb15k237 poetry-author-uni"
titles = "'20 Newsgroups, 20 classes' 'Bibtex, 146 classes' 'Delicious, 352 classes' 'FB15k-237, 11,183 classes' 'Poetry, 12,368 classes'"
tops = "2 4 4.4 9 8"
lows = "0.5 2.5 3.6 6 3.5"
set multiplot
set logscale x
set format x "%g"
set format y "%g"
do for [s=1:words(sets)] {
    if (there("-".word(sets, s))) {
        f = file("-".word(sets, s))
        col = (s - 1) % 3; row = (s - 1) / 3
        @PANEL
        set title word(titles, s)
        set xlabel (s > 2 ? "training time, ".column_name(f,1) : "")
        set ylabel (col == 0 ? "log-loss on new rows" : "")
        set yrange [real(word(lows, s)):real(word(tops, s))]
        plot for [i=2:columns_of(f)] f using 1:i skip 1 with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f)] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6 title column_name(f,i)
unset multiplot
