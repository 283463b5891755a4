# Recall against time of a query, by itself and in blocks, of each index; see compare_search.sh.
name = "compare_search"
width = 1000; height = 760
load scripts."/style.inc"
sets = system(sprintf("tail -n +2 '%s' | cut -d, -f1 | uniq | tr ' ' '_'", file("")))
programs = "xsoftmax_spherical FAISS_IVF FAISS_HNSW hnswlib"
columns = words(sets); rows = 2; below = 40
set multiplot
set format x "%g"
set logscale x
plain(s) = system("echo '".s."' | tr _ ' '")
do for [s=1:words(sets)] {
    do for [r=0:1] {
        col = s - 1; row = r
        @PANEL
        set title plain(word(sets, s)).(r ? ", blocks of 256" : ", one by one") noenhanced
        set xlabel (r ? "microseconds a query, one thread" : "")
        set ylabel (col == 0 ? "recall of the best ten" : "")
        set yrange [0.7:1.01]
        plot for [p=1:words(programs)] file("") using (strcol(1) eq plain(word(sets, s)) && strcol(2) eq plain(word(programs, p)) ? column(r ? 7 : 6) : NaN):5 skip 1 \
            with linespoints linetype p pointtype 4 + p pointsize 0.8
    }
}
@LEGEND
plot NaN notitle, for [p=1:words(programs)] keyentry with linespoints linetype p pointtype 4 + p pointsize 0.8 title plain(word(programs, p))
unset multiplot
