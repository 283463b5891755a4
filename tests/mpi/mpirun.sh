#!/bin/sh
# Starts ranks of a program on this machine, more than it has processors where need be, also as root:
#
#   mpirun.sh openmpi|mpich LAUNCHER RANKS PROGRAM [ARGUMENT...]
set -u
# Where a container shows no /sys, hwloc and UCX, on which MPIs are built, say so on ranks' output.
export HWLOC_HIDE_ERRORS=2 UCX_LOG_LEVEL=fatal
kind=$1 launcher=$2 ranks=$3
shift 3
case $kind in
openmpi)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # Ranks read each other's memory through a file: other ways are not permitted in every container.
    export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    # Those ways alone are set up: to look for networks takes longer than most of the tests.
    export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
    exec "$launcher" --bind-to none -n "$ranks" "$@"
    ;;
*) exec "$launcher" -n "$ranks" "$@" ;;
esac
