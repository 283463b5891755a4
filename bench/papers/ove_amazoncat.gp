# Figure 3d of Titsias 2016: the bound as it is estimated along the way.
name = "ove_amazoncat"
width = 640; height = 400
load scripts."/style.inc"
set title "OVE-SGD on data of AmazonCat-13K's shape"
set xlabel "examples"
set ylabel "minus the one-vs-each bound of an example"
set logscale y
set format x "%.0s%c"
unset key
plot file("-bound") using 1:(-$2) with lines linecolor rgb orange notitle
