"""The one way of every step: prompt, runtime, budget, runner, record."""
