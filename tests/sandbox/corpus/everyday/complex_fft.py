# expect: [2, 8.0, true, true, 2.0, [5.0, -4.0], 1.5708, 120]
import cmath
import math


def fft(values):
    n = len(values)
    if n == 1:
        return values
    even, odd = fft(values[::2]), fft(values[1::2])
    twiddled = [cmath.exp(-2j * cmath.pi * k / n) * odd[k] for k in range(n // 2)]
    return [e + t for e, t in zip(even, twiddled)] + [e - t for e, t in zip(even, twiddled)]


def newton(f, df, x, tolerance=1e-12):
    for step in range(100):
        delta = f(x) / df(x)
        x -= delta
        if abs(delta) < tolerance:
            return x, step
    raise ArithmeticError("no convergence")


def simpson(f, a, b, n=100):
    h = (b - a) / n
    return h / 3 * sum((1 if i in (0, n) else 4 if i % 2 else 2) * f(a + i * h) for i in range(n + 1))


signal = [math.sin(2 * math.pi * 2 * t / 16) for t in range(16)]
spectrum = [round(abs(c), 6) for c in fft(signal)]
root, steps = newton(lambda x: x * x - 2, lambda x: 2 * x, 1.0)
z = complex(3, 4)
[spectrum.index(max(spectrum)), max(spectrum), math.isclose(root, math.sqrt(2)), steps < 10, round(simpson(math.sin, 0, math.pi), 6), [abs(z), z.conjugate().imag], round(cmath.phase(1j), 4), math.comb(10, 3)]
