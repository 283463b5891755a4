# How far BOUCHARD's weights are from SOFT's on the way, as they are and centred: less their mean over the classes.
name = "ove_alpha"
width = 900; height = 430
load scripts."/style.inc"
columns = 3; below = 82; keyrows = 3
sets = "mnist 20news bibtex"
titles = "MNIST 20NEWS BIBTEX"
norms = "0.64 0.65 0.25"
set multiplot
set logscale x
set xlabel "L-BFGS iterations from zero"
set yrange [0:*]
set xrange [*:*] noextend
do for [s=1:3] {
    if (there("-".word(sets, s))) {
        f = file("-".word(sets, s))
        col = s - 1
        @PANEL
        set title word(titles, s)
        set ylabel (s == 1 ? "norm" : "")
        plot for [i=2:columns_of(f)] f using 1:i skip 1 with lines linetype i/2 dashtype i%2+1, \
             real(word(norms, s)) with lines linecolor rgb black dashtype 3
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f)] keyentry with lines linetype i/2 dashtype i%2+1 title column_name(f,i), \
     keyentry with lines linecolor rgb black dashtype 3 title "the paper's"
unset multiplot
