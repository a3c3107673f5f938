# expect: [{"mean": 81.571, "median": 85, "mode": 85, "stdev": 11.4434, "iqr": 18.0, "outliers": [64, 98]}, 5.1, 45.7, "1/4", 0.8413, 48.0]
import statistics as st
from fractions import Fraction

SCORES = [72, 85, 85, 90, 64, 77, 98]


def summary(values):
    q1, q2, q3 = st.quantiles(values, n=4)
    return {
        "mean": round(st.mean(values), 3),
        "median": st.median(values),
        "mode": st.mode(values),
        "stdev": round(st.stdev(values), 4),
        "iqr": q3 - q1,
        "outliers": [v for v in values if abs(v - st.fmean(values)) > 1.5 * st.pstdev(values)],
    }


hours = [1, 2, 3, 4, 5]
marks = [52, 54, 61, 67, 71]
slope, intercept = st.linear_regression(hours, marks)
exact = st.mean([Fraction(1, 3), Fraction(1, 6)])
normal = st.NormalDist(100, 15)
[summary(SCORES), round(slope, 3), round(intercept, 3), str(exact), round(normal.cdf(115), 4), st.harmonic_mean([40, 60])]
