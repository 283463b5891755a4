# Figure 1 of Bamler and Mandt 2020: accuracy and log-likelihood on test rows against training time.
name = "adversarial_curves"
sets = "made poetry-author-uni kg-fb15k237 s3rec-beauty"
titles = "'Amazon-670K in shape' Poetry FB15k-237 Beauty"
count = int(system(sprintf("ls '%s' | grep -c '^%s-.*-accuracy.csv$'", folder, name)))
width = 1000; height = 60 + 340 * count
load scripts."/style.inc"
set multiplot layout count,2 margins 0.08, 0.98, 0.27 / count, 1 - 0.1 / count spacing 0.09, 0.24 / count
set logscale x
set format x "%g"
set key at screen 0.5, 0.005 center bottom horizontal maxrows 2 noenhanced
do for [s=1:words(sets)] {
    part = "-".word(sets, s)
    if (there(part."-accuracy")) {
        do for [what in "accuracy likelihood"] {
            set title word(titles, s)
            unit = system(sprintf("head -n 1 '%s' | cut -d, -f1", file(part."-accuracy")))
            set xlabel (unit eq "seconds" ? "training time, s" : "training time, processor seconds")
            # Ends that are there even where all points are alike.
            if (what eq "accuracy") { set yrange [0:0.001<*] } else { set yrange [*:-1<*] }
            set ylabel (what eq "accuracy" ? "test accuracy" : "test log-likelihood")
            plot for [i=1:6] file(part."-".what) using 1:i+1 skip 1 with linespoints linetype i notitle, \
                 for [i=1:6] keyentry with linespoints linetype i title word("adversarial uniform frequency NCE A&R OVE", i)
            unset key
        }
    }
}
unset multiplot
