/*
 * Yen et al., Loss Decomposition for Fast Learning in Large Output Spaces, 2018, Figure 1 (MegaFace: 672 thousand
 * identities, embeddings of 128 numbers): the cost of a step at the paper's K and D, on generated faces of that form.
 * The accuracy that the steps reach is measured by ldgs_multiclass.
 */
#include "ldgs.h"

enum { D = 128, BLOCKS = 8 };

void figure_ldgs_steps(const papers *p)
{
    report *r = report_new(p, "ldgs_steps", "Yen et al. 2018, Figure 1: what a step costs at 672 thousand classes");
    const ldgs_shape faces = {p->quick ? 3000 : 672000, p->quick ? 50 : 8000, D, 1, 0.9, 0, 0};
    ldgs_time(p, r, &faces, BLOCKS, "");
    report_end(r);
}
