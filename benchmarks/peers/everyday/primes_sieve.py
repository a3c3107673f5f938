def primes_below(limit):
    sieve = [True] * limit
    sieve[0] = sieve[1] = False
    for number in range(2, int(limit**0.5) + 1):
        if sieve[number]:
            for multiple in range(number * number, limit, number):
                sieve[multiple] = False
    return [number for number, prime in enumerate(sieve) if prime]


primes = primes_below(1000)
twins = [(a, b) for a, b in zip(primes, primes[1:], strict=False) if b - a == 2]
result = [len(primes), primes[-1], sum(primes), len(twins), list(twins[-1])]
