# How far BOUCHARD's weights are from SOFT's on the way, as they are and centred: less their mean over the classes.
name = "ove_alpha"
width = 1200; height = 430
load scripts."/style.inc"
set multiplot layout 1,3 margins 0.06, 0.985, 0.13, 0.91 spacing 0.05, 0
set logscale x
set xlabel "L-BFGS iterations from zero"
set key bottom left Left reverse samplen 2
set yrange [0:*]
set xrange [*:*] noextend
sets = "mnist 20news bibtex"
titles = "MNIST 20NEWS BIBTEX"
norms = "0.64 0.65 0.25"
do for [s=1:3] {
    part = "-".word(sets, s)
    if (there(part)) {
        set title word(titles, s)
        set ylabel (s == 1 ? "norm" : "")
        stats file(part) using 1 skip 1 nooutput
        plot for [i=2:STATS_columns] file(part) using 1:i with lines linetype i/2 dashtype i%2+1 title columnheader(i), \
             real(word(norms, s)) with lines linetype 7 dashtype 3 title "the paper's"
        unset key
    }
}
unset multiplot
