import statistics

samples = [2.5, 3.1, 4.7, 2.9, 3.3, 9.8, 3.1]
result = {
    "mean": round(statistics.fmean(samples), 4),
    "median": statistics.median(samples),
    "mode": statistics.mode(samples),
    "deviation": round(statistics.stdev(samples), 4),
    "quartiles": [round(cut, 3) for cut in statistics.quantiles(samples, n=4)],
    "outliers": [value for value in samples if abs(value - statistics.mean(samples)) > 2 * statistics.pstdev(samples)],
}
