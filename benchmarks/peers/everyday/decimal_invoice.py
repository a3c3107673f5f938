from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")
lines = [("paper", 3, "4.99"), ("ink", 1, "24.50"), ("clips", 7, "0.35")]
net = sum((quantity * Decimal(price) for _, quantity, price in lines), Decimal(0))
tax = (net * Decimal("0.19")).quantize(CENT, rounding=ROUND_HALF_UP)
shares = [(net / 3).quantize(CENT), Decimal("0.1") + Decimal("0.2")]
result = {"net": str(net), "tax": str(tax), "gross": str(net + tax), "shares": [str(share) for share in shares], "float": 0.1 + 0.2}
