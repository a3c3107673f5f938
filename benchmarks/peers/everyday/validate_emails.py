import re

EMAIL = re.compile(r"[\w.+-]+@(?P<domain>[a-z0-9-]+(\.[a-z0-9-]+)+)", re.IGNORECASE)
candidates = ["ann@example.com", "bob.smith+tag@mail.example.org", "no-at-sign", "x@y", "Cid@EXAMPLE.com "]
valid = {text: match["domain"].lower() for text in candidates if (match := EMAIL.fullmatch(text.strip()))}
domains = sorted(set(valid.values()))
result = {"valid": valid, "domains": domains, "invalid": [text for text in candidates if text not in valid]}
