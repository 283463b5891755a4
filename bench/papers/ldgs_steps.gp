# Figure 1 of Yen et al. 2018, what its time axis is made of: milliseconds a step.
name = "ldgs_steps"
width = 900; height = 420
load scripts."/style.inc"
set title "a step at 672 thousand classes, by examples n"
set xlabel "ms"
set format x "%g"
set style fill solid 0.8 noborder
unset key
times = sprintf("< grep ',ms a step,' '%s'", file(""))
stats times using 5 nooutput
low = STATS_min / 2
set yrange [11.6:-0.6]
set logscale x
number(s) = int("0x".s[2:7])
plot times using 5:0:(low):5:($0-0.35):($0+0.35):(number(colour(strcol(2)))):ytic(2) with boxxyerror linecolor rgb variable notitle
