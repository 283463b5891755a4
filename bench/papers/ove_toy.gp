# Figure 1 of Titsias 2016: probabilities, decision boundaries, and bounds.
name = "ove_toy"
width = 900; height = 360
load scripts."/style.inc"
set multiplot layout 1,3 margins 0.06, 0.972, 0.16, 0.9 spacing 0.085, 0
set title "(a) probabilities of ten values"
set xlabel "value"
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 noborder
set yrange [0:*]
set xtics nomirror
set key top right
f = file("-values")
plot for [i=2:4] f using i:xtic(1) skip 1 linecolor rgb colour(column_name(f,i)) title column_name(f,i)
set title "(b) decision boundaries"
set xlabel "x_1"
set ylabel "x_2" offset 1.5
set style data points
set xrange [-3.2:3.2]
set yrange [-3.2:3.2]
set xtics 1 mirror
set ytics 1
unset key
plot for [i=2:6] file("-points") using 1:i with points linecolor rgb "#999999" pointtype i*2-3 pointsize 0.5 notitle, \
     for [i=2:4] file("-boundaries") using (0):(0):(column(i) > 0 ? 5*cos($1) : NaN):(5*sin($1)) skip 1 with vectors nohead \
         linecolor rgb colour(column_name(file("-boundaries"),i)) linewidth 1.5 title column_name(file("-boundaries"),i)
set title "(c) log likelihood and bounds"
set xrange [0:10000]
set yrange [-180:-20]
set xtics 2500
set ytics autofreq
set xlabel "iteration"
set ylabel "log likelihood or bound" offset 0
set key bottom right samplen 2
f = file("-bounds")
plot f using 1:5 skip 1 with lines linecolor rgb colour(column_name(f,5)) linewidth 1 title column_name(f,5), \
     for [i=2:4] f using 1:i skip 1 with lines linecolor rgb colour(column_name(f,i)) linewidth 1.5 title column_name(f,i)
unset multiplot
