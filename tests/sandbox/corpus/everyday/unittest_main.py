# expect: [3, true, 1]
import unittest


def fizzbuzz(n):
    return "FizzBuzz" if n % 15 == 0 else "Fizz" if n % 3 == 0 else "Buzz" if n % 5 == 0 else str(n)


class FizzBuzzTest(unittest.TestCase):
    def setUp(self):
        self.cases = {3: "Fizz", 5: "Buzz", 30: "FizzBuzz", 7: "7"}

    def test_cases(self):
        for n, expected in self.cases.items():
            with self.subTest(n=n):
                self.assertEqual(fizzbuzz(n), expected)

    def test_error(self):
        with self.assertRaisesRegex(TypeError, "unsupported|not all"):
            fizzbuzz(None)

    @unittest.skip("not written yet")
    def test_later(self):
        self.fail()


if __name__ == "__main__":
    program = unittest.main(argv=["fizzbuzz"], exit=False, verbosity=0)

[program.result.testsRun, program.result.wasSuccessful(), len(program.result.skipped)]
