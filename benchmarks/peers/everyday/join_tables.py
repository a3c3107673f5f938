customers = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}, {"id": 3, "name": "Cid"}]
orders = [
    {"customer": 1, "total": 30},
    {"customer": 2, "total": 20},
    {"customer": 1, "total": 12},
    {"customer": 9, "total": 5},
]
by_id = {customer["id"]: customer for customer in customers}
joined = [{**order, "name": by_id[order["customer"]]["name"]} for order in orders if order["customer"] in by_id]
without = sorted(customer["name"] for customer in customers if not any(o["customer"] == customer["id"] for o in orders))
orphans = [order for order in orders if order["customer"] not in by_id]
result = {"joined": joined, "without orders": without, "orphans": len(orphans)}
