/* Eigenvectors of small symmetric matrices, and orthonormal bases. */
#include "math/symmetric.h"

#include "base/order.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Sum of a[i]*b[i], in eight partial sums. */
static double dot(const double *a, const double *b, size_t n)
{
    double part[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t l = 0; l < 8; l++) {
            part[l] += a[i + l] * b[i + l];
        }
    }
    for (size_t l = 0; i + l < n; l++) {
        part[l] += a[i + l] * b[i + l];
    }
    return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

/* Rotates rows and columns p and q of a so that a[p][q] becomes zero, and rows p and q of v with them. */
static void rotate(double *a, double *v, size_t n, size_t p, size_t q)
{
    double apq = a[p * n + q];
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
    double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    for (size_t i = 0; i < n; i++) {
        double x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = c * x - s * y;
        a[i * n + q] = s * x + c * y;
    }
    for (size_t i = 0; i < n; i++) {
        double x = a[p * n + i], y = a[q * n + i];
        a[p * n + i] = c * x - s * y;
        a[q * n + i] = s * x + c * y;
        x = v[p * n + i];
        y = v[q * n + i];
        v[p * n + i] = c * x - s * y;
        v[q * n + i] = s * x + c * y;
    }
    a[p * n + q] = a[q * n + p] = 0;
}

void xsmi_symmetric_eigen(double *a, size_t n, double *values, double *vectors)
{
    double scale = 0;
    for (size_t i = 0; i < n * n; i++) {
        vectors[i] = i % (n + 1) == 0;
        scale = XSMI_MAX(fabs(a[i]), scale);
    }
    /* Convergence is quadratic: this limit is never reached. */
    for (int sweep = 0; sweep < 60; sweep++) {
        bool rotated = false;
        for (size_t p = 0; p + 1 < n; p++) {
            for (size_t q = p + 1; q < n; q++) {
                if (fabs(a[p * n + q]) > 1e-17 * scale) {
                    rotate(a, vectors, n, p, q);
                    rotated = true;
                }
            }
        }
        if (!rotated) {
            break;
        }
    }
    for (size_t i = 0; i < n; i++) {
        values[i] = a[i * n + i];
    }
    for (size_t i = 0; i < n; i++) {
        size_t best = i;
        for (size_t j = i + 1; j < n; j++) {
            best = values[j] > values[best] ? j : best;
        }
        double saved = values[i];
        values[i] = values[best];
        values[best] = saved;
        size_t largest = 0;
        for (size_t j = 0; j < n; j++) {
            saved = vectors[i * n + j];
            vectors[i * n + j] = vectors[best * n + j];
            vectors[best * n + j] = saved;
        }
        for (size_t j = 0; j < n; j++) {
            largest = fabs(vectors[i * n + j]) > fabs(vectors[i * n + largest]) ? j : largest;
        }
        double sign = vectors[i * n + largest] < 0 ? -1 : 1;
        for (size_t j = 0; j < n; j++) {
            vectors[i * n + j] *= sign;
        }
    }
}

void xsmi_orthonormalise(double *v, size_t count, size_t d, bool (*goes_on)(void *), void *state)
{
    for (size_t i = 0; i < count && goes_on(state); i++) {
        double *x = v + i * d;
        double before = sqrt(dot(x, x, d));
        for (int round = 0; round < 2; round++) {
            for (size_t j = 0; j < i; j++) {
                const double *y = v + j * d;
                double share = dot(x, y, d);
                for (size_t l = 0; l < d; l++) {
                    x[l] -= share * y[l];
                }
            }
        }
        double length = sqrt(dot(x, x, d));
        if (!(length > 1e-10 * before)) {
            memset(x, 0, d * sizeof *x);
            continue;
        }
        for (size_t l = 0; l < d; l++) {
            x[l] /= length;
        }
    }
}
