# The penalty lambda of eq. 6 of Bamler and Mandt 2020: log-loss and accuracy on test rows, with the least and the largest of
# the seeds; the methods stand beside each other at each lambda.
name = "adversarial_penalty"
width = 900; height = 600
load scripts."/style.inc"
columns = 3; rows = 2; below = 45; left = 84.0; gapx = 68.0
sets = "bibtex delicious corel5k"
titles = "Bibtex Delicious Corel5k"
measures = "log-loss accuracy"
set multiplot
set logscale x
set xrange [5e-6:2e-2]
set xtics ("0" 1e-5, "10^{-4}" 1e-4, "10^{-3}" 1e-3, "10^{-2}" 1e-2)
do for [m=1:2] {
    do for [s=1:3] {
        part = "-".word(sets, s)."-".word(measures, m)
        if (there(part)) {
            f = file(part)
            row = m - 1; col = s - 1
            @PANEL
            set title (m == 1 ? word(titles, s) : "")
            set xlabel (m == 2 ? "lambda" : "")
            set ylabel (s == 1 ? "test ".word(measures, m) : "")
            plot for [i=2:columns_of(f):3] f using ($1 * (i == 2 ? 0.93 : 1.07)):i:i+1:i+2 skip 1 with yerrorbars \
                     linecolor rgb colour(column_name(f,i)) pointtype 0, \
                 for [i=2:columns_of(f):3] f using ($1 * (i == 2 ? 0.93 : 1.07)):i skip 1 with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6
        }
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f):3] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize 0.6 title column_name(f,i)
unset multiplot
