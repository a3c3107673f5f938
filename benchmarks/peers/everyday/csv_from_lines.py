import csv

LINES = ["name;city;note", 'Ann;Oslo;"says ""hi"""', "Bob;Rome;", 'Cid;"Sao; Paulo";ok']
header, *rows = csv.reader(LINES, delimiter=";")
records = [dict(zip(header, row, strict=True)) for row in rows]
result = {"records": records, "cities": sorted(record["city"] for record in records), "empty": [r["name"] for r in records if not r["note"]]}
