# In the manner of Figure 3 of Titsias 2016: log likelihood of an example, or its bound, on the way to the maximum.
name = "ove_table2"
width = 1200; height = 400
load scripts."/style.inc"
set multiplot layout 1,3 margins 0.065, 0.985, 0.15, 0.9 spacing 0.06, 0
set xlabel "passes over the rows"
set key bottom right
sets = "mnist 20news bibtex"
titles = "MNIST 20NEWS BIBTEX"
ends = "60 100 60"
lows = "-1.5 -2.5 -6"
do for [s=1:3] {
    part = "-".word(sets, s)
    if (there(part)) {
        set title word(titles, s)
        set ylabel (s == 1 ? "bound of an example" : "")
        set xrange [0:real(word(ends, s))]
        set yrange [real(word(lows, s)):0]
        plot for [i=2:4] file(part) using 1:i with lines linetype i-1 title columnheader(i)
        unset key
    }
}
unset multiplot
