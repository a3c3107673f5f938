# expect: [null, 2.5, 0, "adder"]
"""The usual command line tool: the program name and the arguments come from sys.argv."""
import argparse
import sys


def parse(argv=None):
    parser = argparse.ArgumentParser(description="Adds numbers.", epilog="That is all.")
    parser.add_argument("numbers", nargs="*", type=float, help="what to add")
    parser.add_argument("-p", "--precision", type=int, default=2)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--sum", dest="reduce", action="store_const", const=sum, default=sum)
    group.add_argument("--max", dest="reduce", action="store_const", const=max)
    return parser.parse_args(argv)


def main():
    args = parse()
    return round(args.reduce(args.numbers), args.precision) if args.numbers else None


nothing = main()
sys.argv = ["adder", "1.25", "2.5", "--max"]
[nothing, main(), parse(["1", "2", "-p", "0"]).precision, sys.argv[0]]
