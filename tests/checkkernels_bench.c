#include "checkkernels.h"
int check_bench(void)
{
    return 0;
}
