# expect: 2
# stdout: "*** HELLO ADA ***\n*** HELLO ADA ***\n*** HELLO BOB ***\n*** HELLO BOB ***\nusage: tool [-h] [-n N] [--shout] [--style {plain,fancy}] names [names ...]\ntool: error: argument -n/--times: invalid int value: 'x'\n"
import argparse
import sys


def build_parser():
    parser = argparse.ArgumentParser(prog="tool", description="Greets people.")
    parser.add_argument("names", nargs="+")
    parser.add_argument("-n", "--times", type=int, default=1, metavar="N")
    parser.add_argument("--shout", action="store_true")
    parser.add_argument("--style", choices=["plain", "fancy"], default="plain")
    return parser


def main(argv=None):
    args = build_parser().parse_args(argv if argv is not None else sys.argv[1:])
    for name in args.names:
        greeting = f"hello {name}"
        if args.style == "fancy":
            greeting = f"*** {greeting} ***"
        for _ in range(args.times):
            print(greeting.upper() if args.shout else greeting)
    return 0


code = main(["ada", "bob", "-n", "2", "--shout", "--style=fancy"])
try:
    main(["--times", "x", "ann"])
except SystemExit as error:
    code = error.code
code
