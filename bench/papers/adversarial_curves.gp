# Figure 1 of Bamler and Mandt 2020: accuracy and log-likelihood on test rows against training time.
name = "adversarial_curves"
sets = "made poetry-author-uni kg-fb15k237 s3rec-beauty"
titles = "'Amazon-670K in shape' Poetry FB15k-237 Beauty"
measures = "accuracy likelihood"
count = int(system(sprintf("ls '%s' | grep -c '^%s-.*-accuracy.csv$'", folder, name)))
width = 900; height = 134 + 250 * count
load scripts."/style.inc"
columns = 2; rows = count; below = 66; keyrows = 3; row = -1; left = 96.0; gapx = 84.0
# The methods with a tree begin when it is fitted, and may have few points: these are seen by their marks.
size(s) = has(s, "dversarial") || has(s, "NCE") ? 1.1 : 0.6
set multiplot
set logscale x
set format x "%g"
do for [s=1:words(sets)] {
    if (there("-".word(sets, s)."-accuracy")) {
        row = row + 1
        do for [m=1:2] {
            f = file("-".word(sets, s)."-".word(measures, m))
            col = m - 1
            @PANEL
            set title word(titles, s)
            set xlabel (row == rows - 1 ? "training time, ".column_name(f,1) : "")
            # Ends that are there even where all points are alike. A method far below the others would press them together.
            if (m == 1) { set yrange [0:0.001<*] } else { set yrange [-16<*:-1<*] }
            set ylabel (m == 1 ? "test accuracy" : "test log-likelihood")
            plot for [i=2:columns_of(f)] f using 1:i skip 1 with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize size(column_name(f,i))
        }
    }
}
@LEGEND
plot NaN notitle, for [i=2:columns_of(f)] keyentry with linespoints linecolor rgb colour(column_name(f,i)) dashtype dash(column_name(f,i)) pointtype mark(column_name(f,i)) pointsize size(column_name(f,i)) title column_name(f,i)
unset multiplot
