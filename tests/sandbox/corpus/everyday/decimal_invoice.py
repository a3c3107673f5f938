# expect: {"net": "71.48", "tax": "13.58", "total": "85.06", "third": "0.333333", "comma": "invalid", "precision": 28, "shown": "85.06", "digits": [3, 1, 4]}
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, getcontext, localcontext

LINES = [("widget", 3, "19.99"), ("gadget", 1, "4.005"), ("shipping", 1, "7.50")]
VAT = Decimal("0.19")
CENT = Decimal("0.01")


def cents(amount):
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)


net = sum((cents(count * Decimal(price)) for _, count, price in LINES), Decimal(0))
tax = cents(net * VAT)
with localcontext() as context:
    context.prec = 6
    third = Decimal(1) / Decimal(3)
try:
    Decimal("12,50")
except InvalidOperation:
    comma = "invalid"
precision = getcontext().prec
{"net": net, "tax": tax, "total": net + tax, "third": third, "comma": comma, "precision": precision, "shown": f"{net + tax:,.2f}", "digits": Decimal("3.14").as_tuple().digits}
